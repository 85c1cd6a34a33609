"""Reads with a time limit, on both databases, and calls in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.drivers.patience import UPKEEP, current_patience, patience
from rowcall.operations.effects import Blocking, Read, reading_within
from rowcall.queue import Operation
from rowcall.store.statement import Plan, Statement, as_is, fetch

ENDLESS = "with recursive n(i) as (select 1 union all select (i + 1) % 7 from n) select count(*) from n"


@pytest.fixture(params=["sqlite", "postgres"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rowcall]:
    url = tmp_path / "app.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with Rowcall(url) as found:
        found.migrate()
        yield found


def endless() -> Plan[object]:
    return (yield from fetch(Statement(ENDLESS, (), as_is)))


def reading(*, snapshot: bool) -> Operation[object]:
    return (yield from Read(endless(), snapshot=snapshot))


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_read_that_takes_too_long_is_stopped(jobs: Rowcall, snapshot: bool) -> None:
    queue = queue_of(jobs)
    with pytest.raises(StoreUnavailable, match=r"took too long|cancelled the statement"):
        queue.run(reading_within(reading(snapshot=snapshot), 0.05))
    with pytest.raises(StoreUnavailable, match=r"took too long|cancelled the statement"):
        asyncio.run(queue.arun(reading_within(reading(snapshot=snapshot), 0.05)))
    assert jobs.list().jobs == []


def test_an_operation_sees_the_errors_of_its_effects(jobs: Rowcall) -> None:
    def forgiving() -> Operation[str]:
        try:
            yield from Read(endless())
        except StoreUnavailable:
            return "stopped"
        return "never"

    assert queue_of(jobs).run(reading_within(forgiving(), 0.05)) == "stopped"


def test_a_call_in_a_thread_waits_as_long_for_replies(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, patience(UPKEEP):
        assert asyncio.run(queue_of(jobs).arun(Blocking(current_patience))) == UPKEEP
