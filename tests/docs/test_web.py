"""The web apps of the pages, served: a request enqueues a job, and the worker in the same process runs it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.docs.pages import DOCS, Block, blocks
from tests.examples.site import Ask, Site
from tests.support import PythonProcess, eventually

pytestmark = pytest.mark.slow

TASKS, *REST = [block for block in blocks(DOCS / "workers.md") if block.language == "python"]


def app_with(word: str, folder: Path) -> Path:
    """The page's tasks, and its app that imports a framework, as one file."""
    (found,) = [block for block in REST if f"from {word} import" in block.text]
    path = folder / "web.py"
    path.write_text(as_file(TASKS, found), encoding="utf-8")
    return path


def as_file(*parts: Block) -> str:
    return "\n\n".join(part.text for part in parts).replace("app.run()", "app.run(port=0)")


def assert_signs_up(server: PythonProcess, ask: Ask, folder: Path) -> None:
    with Site(server) as site, Rowcall(folder / "app.db") as jobs:
        answer = site.ask(ask)
        assert answer.status_code == 200, answer.text
        (job,) = jobs.list().jobs
        assert str(job.id) in answer.text
        assert eventually(lambda: jobs.get(job.id).result) == "sent to ann@example.com"


def test_fastapi(tmp_path: Path) -> None:
    app_with("fastapi", tmp_path)
    with PythonProcess("-m", "uvicorn", "web:app", "--port=0", cwd=str(tmp_path)) as server:
        assert_signs_up(server, Ask("/sign-up?address=ann@example.com", "{}"), tmp_path)
        server.send(signal.SIGTERM)
        server.wait()
        assert "Application shutdown complete" in server.output
    with Rowcall(tmp_path / "app.db") as jobs:
        assert jobs.workers() == []


def test_flask(tmp_path: Path) -> None:
    path = app_with("flask", tmp_path)
    with PythonProcess(str(path), cwd=str(tmp_path)) as server:
        assert_signs_up(server, Ask("/sign-up/ann@example.com", "{}"), tmp_path)
        server.send(signal.SIGINT)
        assert server.wait() == 0, server.output
    with Rowcall(tmp_path / "app.db") as jobs:
        assert jobs.workers() == []
