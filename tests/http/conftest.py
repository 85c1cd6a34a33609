"""A queue with some tasks and jobs, and a browser-like client of its dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.http.client import Client, client_of


def declared(url: str | Path) -> Rowcall:
    jobs = Rowcall(url)

    @jobs.task
    def greet(name: str) -> str:
        return f"hello {name}"

    @jobs.task(max_attempts=1, queue="mail")
    def broken(reason: str = "no reason") -> None:
        raise ValueError(reason)

    return jobs


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with declared(tmp_path / "app.db") as found:
        yield found


@pytest.fixture
def filled(jobs: Rowcall) -> Rowcall:
    """Job 1 has succeeded, job 2 has failed, and job 3 is scheduled."""
    jobs.enqueue("greet", {"name": "Ann"}, tags=["vip"])
    jobs.enqueue("broken", {"reason": "a < b & c"})
    jobs.drain()
    jobs.enqueue("greet", {"name": "Bob"}, delay=3600, key="bob")
    return jobs


@pytest.fixture
def client(filled: Rowcall) -> Iterator[Client]:
    with client_of(filled) as found:
        yield found
