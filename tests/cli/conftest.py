from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rowcall import Rowcall
from rowcall.cli.main import main

APP = """
from rowcall import Rowcall

jobs = Rowcall("sqlite:///queue.db")
number = 7

class Holder:
    inner = jobs

@jobs.task
def hello(name: str) -> str:
    return f"hello {name}"

@jobs.task(max_attempts=1)
def broken() -> None:
    raise ValueError("it is [bold]broken[/bold] \\x1b[31m")
"""

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder, and no trace of the modules that were imported from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROWCALL_URL", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def app(folder: Path) -> Path:
    path = folder / "app.py"
    path.write_text(APP)
    return path


@pytest.fixture
def queue(app: Path, folder: Path) -> Iterator[Rowcall]:
    """The database of the app, with its tables."""
    with Rowcall(folder / "queue.db") as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def server_app(app: Path, postgres_url: str) -> Path:
    """The same app, with another URL."""
    app.write_text(APP.replace("sqlite:///queue.db", postgres_url))
    return app


@pytest.fixture
def server_queue(server_app: Path, postgres_url: str) -> Iterator[Rowcall]:
    """Its database, with its tables."""
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def run() -> Run:
    def invoke(*words: str) -> Result:
        return CliRunner().invoke(main, list(words))

    return invoke
