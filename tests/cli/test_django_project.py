"""Commands in a Django project. Django can be set up once per process, so each of these starts one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.support import PythonProcess, eventually

pytestmark = pytest.mark.slow

SETTINGS = """
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
INSTALLED_APPS = ["rowcall.django", "shop"]
ROWCALL = {"IMPORTS": ["more_tasks"]}
"""
TASKS = """
from rowcall.django import jobs
from shop.models import Order

@jobs.task
def count() -> int:
    return Order.objects.count()

@jobs.task(isolation="process")
def count_apart() -> int:
    return Order.objects.count()
"""
MODELS = """
from django.db import models

class Order(models.Model):
    pass
"""
MORE = """
from rowcall.django import jobs

@jobs.task
def more() -> str:
    return "more"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    files = {"settings.py": SETTINGS, "more_tasks.py": MORE, "shop/__init__.py": "", "shop/models.py": MODELS}
    for name, text in {**files, "shop/tasks.py": TASKS}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def start(project: Path, *words: str, settings: str = "settings") -> PythonProcess:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": settings}
    environment.pop("ROWCALL_URL", None)
    return PythonProcess(*words, cwd=str(project), env=environment)


def run(project: Path, *words: str, settings: str = "settings", code: int = 0) -> str:
    with start(project, *words, settings=settings) as process:
        assert process.wait(within=60) == code, process.output
        return process.output


def test_the_settings_are_enough_for_a_worker(project: Path) -> None:
    run(project, "-m", "django", "migrate", "--run-syncdb", "--verbosity=0")
    with Rowcall(project / "shop.db") as jobs, start(project, "-m", "rowcall", "work") as worker:
        made = [jobs.enqueue(name) for name in ("count", "count_apart", "more")]
        eventually(lambda: not worker.alive or jobs.get(made[1].id).status == "succeeded", within=60)
        assert [jobs.result(job, timeout=10) for job in made] == [0, 0, "more"], worker.output
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0, worker.output
    assert "count_apart" in run(project, "-m", "rowcall", "tasks")


def test_settings_that_cannot_be_imported(project: Path) -> None:
    printed = run(project, "-m", "rowcall", "jobs", settings="nothing", code=2)
    assert "could not set up Django (DJANGO_SETTINGS_MODULE=nothing): ModuleNotFoundError" in printed
