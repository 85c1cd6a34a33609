from __future__ import annotations

import json
import runpy
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from rowcall import Rowcall
from rowcall.cli.starter import FRAMEWORKS, framework_of
from tests.cli.conftest import Run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ROWCALL_URL", f"sqlite:///{tmp_path}/started.db")
    return folder


@pytest.mark.usefixtures("same_logging")  # Litestar sets it up for the whole process
@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "django"])
def test_the_app_runs_its_job(run: Run, folder: Path, framework: str) -> None:
    result = run("init", "--framework", framework)
    assert result.stdout.startswith("written   app.py\nwritten   Dockerfile\n")
    app = runpy.run_path(str(folder / "app.py"))
    jobs = app["jobs"]
    assert isinstance(jobs, Rowcall)
    with jobs:
        job = app["send_email"].enqueue("a@example.com", subject="Hello")
        jobs.drain()
        assert jobs.get(job.id).result == "sent 'Hello' to a@example.com"


def test_a_django_project_is_found_and_keeps_its_files(run: Run, folder: Path) -> None:
    (folder / "manage.py").touch()
    (folder / "Dockerfile").write_text("FROM mine")
    result = json.loads(run("init", "--json").stdout)
    assert result == {
        "framework": "django",
        "written": ["compose.yaml", "shop-worker.service", "shop-watch.service", ".gitignore"],
        "kept": ["Dockerfile"],
    }
    assert (folder / "Dockerfile").read_text() == "FROM mine"
    assert "-m manage rowcall work\n" in (folder / "shop-worker.service").read_text()


def test_a_django_project_gets_a_server_that_its_settings_can_name(run: Run, folder: Path) -> None:
    (folder / "manage.py").touch()
    (folder / "requirements.txt").touch()
    run("init")
    text = (folder / "compose.yaml").read_text()
    assert "django.db.backends.postgresql" in text
    worker = yaml.safe_load(text)["services"]["worker"]
    assert worker["environment"] == {"PGHOST": "db", "PGUSER": "postgres", "PGPASSWORD": "postgres"}
    assert "COPY requirements.txt .\n" in (folder / "Dockerfile").read_text()


def test_a_flask_app_is_worked_on_with_its_own_command(run: Run, folder: Path) -> None:
    result = run("init", "--framework", "flask")
    assert "flask rowcall work" in result.stdout
    assert "-m flask --app app rowcall work\n" in (folder / "shop-worker.service").read_text()
    assert "-m flask --app app rowcall watch\n" in (folder / "shop-watch.service").read_text()
    assert "RowcallFlask(app)" in (folder / "app.py").read_text()


def test_git_ignores_the_files_of_a_queue_and_their_meaning_is_explained(run: Run, folder: Path) -> None:
    run("init", "--framework", "plain")
    lines = (folder / ".gitignore").read_text().splitlines()
    with Rowcall(folder / "app.db") as jobs, jobs.worker():
        jobs.enqueue("send_email", {"to": "x" * 300_000})
        names = [path.name for path in folder.glob("app.db*")]
    assert {"app.db", "app.db-wal", "app.db-shm", "app.db-rowcall", "app.db-blobs"} == set(names)
    patterns = [line for line in lines if not line.startswith("#")]
    assert [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert [name for name in names if not any(line.startswith("#") and name in line for line in lines)] == []


def test_what_exists_is_named(run: Run, folder: Path) -> None:
    run("init", "--framework", "plain")
    again = run("init", "--framework", "plain")
    assert "unchanged app.py: it exists already\n" in again.stdout
    assert (
        "unchanged .gitignore: it exists already; queues in SQLite files need *.db and *.db-* in it\n" in again.stdout
    )
    assert again.exit_code == 0


def test_the_files_that_run_a_worker(run: Run, folder: Path) -> None:
    run("init", "--framework", "plain")
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert services["worker"]["environment"]["ROWCALL_URL"].startswith("postgresql://")
    assert services["db"]["healthcheck"]["test"][0] == "CMD"
    command = (folder / "Dockerfile").read_text().rpartition("CMD ")[2]
    assert json.loads(command) == ["python", "-m", "rowcall", "work", "app:jobs"]
    unit = (folder / "shop-worker.service").read_text()
    assert f"User={folder.owner()}\nWorkingDirectory={folder}\n" in unit
    assert "KillMode=mixed\n" in unit
    assert services["watch"]["command"] == ["python", "-m", "rowcall", "watch", "app:jobs"]
    assert services["watch"]["environment"]["ROWCALL_URL"] == services["worker"]["environment"]["ROWCALL_URL"]
    assert "-m rowcall watch app:jobs\n" in (folder / "shop-watch.service").read_text()


def test_a_framework_is_found(folder: Path) -> None:
    assert framework_of(folder) == "fastapi"  # is installed here
