"""`flask rowcall work`, of an app that a factory makes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.integrations.flask.commands import with_app
from tests.support import PythonProcess

APP = """
import os
from flask import Flask, current_app
from rowcall.flask import RowcallFlask

rowcall = RowcallFlask()
jobs = rowcall.jobs

@jobs.task
def name() -> str:
    return current_app.name

@jobs.task(isolation="process")
def isolated() -> str:
    return current_app.name

def create_app():
    app = Flask("shop")
    app.config["ROWCALL_URL"] = "sqlite:///app.db"
    rowcall.init_app(app)
    return app
"""


@pytest.mark.slow
def test_a_worker_of_two_processes_loads_the_app(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    flask = ["flask", "--app", "shop", "rowcall"]
    environment = {name: value for name, value in os.environ.items() if name not in ("FLASK_APP", "ROWCALL_URL")}
    words = ["-m", *flask, "work", "--processes", "2"]
    with Rowcall(tmp_path / "app.db") as jobs, PythonProcess(*words, env=environment, cwd=str(tmp_path)) as worker:
        plain, isolated = jobs.enqueue("name"), jobs.enqueue("isolated")
        for job in (plain, isolated):
            assert jobs.result(job, timeout=30) == "shop"
        asked = [sys.executable, "-m", *flask, "show", str(plain.id), "--json"]
        said = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60).stdout
        assert json.loads(said)["job"]["result"] == "shop"
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0, worker.output


def test_the_app_is_inserted_after_the_command() -> None:
    assert with_app(["work", "--concurrency", "3"]) == ["work", "rowcall.flask:jobs", "--concurrency", "3"]
    assert with_app(["jobs", "--url", "sqlite:///other.db"]) == ["jobs", "--url", "sqlite:///other.db"]
    for words in ([], ["--help"], ["demo"], ["no-such-command"]):
        assert with_app(words) == words
