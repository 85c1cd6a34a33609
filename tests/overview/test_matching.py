from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.overview import matching
from rowcall.overview.matching import Matching, Selection


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as found:
        for number in range(5):
            found.enqueue("send", {"to": number}, queue="mail", tags=["even"] if number % 2 == 0 else [])
        yield found


def counted(jobs: Rowcall, **given: object) -> Matching:
    queue = queue_of(jobs)
    return queue.run(Selection(given, ["pending"]).count(queue))


def test_jobs_are_counted_as_they_would_be_changed(jobs: Rowcall) -> None:
    assert counted(jobs) == counted(jobs, queue="mail") == counted(jobs, type="send", all=True) == (5, True)
    assert counted(jobs, tag="even") == (3, True)
    assert counted(jobs, tag="even", limit=2) == counted(jobs, queue="mail", limit=2, rate=3.0) == (2, True)
    assert counted(jobs, status="failed") == counted(jobs, status=["failed"], tag="even") == (0, True)
    assert counted(jobs, queue="other") == (0, True)


def test_very_many_are_not_counted_to_the_end(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_COUNTED", 2)
    monkeypatch.setattr(matching, "_PAGE", 2)
    assert str(counted(jobs, tag="even")) == "2 or more"
