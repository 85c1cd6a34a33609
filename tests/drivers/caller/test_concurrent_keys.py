"""Two open transactions with one key: they end in one job, whichever commits, at any isolation level."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import IsolationLevel

from rowcall import DuplicateJob, Rowcall, StoreUnavailable
from rowcall.domain.errors import Conflict
from tests.support import eventually

LEVELS = [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as made:
        made.migrate()
        yield made


def connected(url: str, level: IsolationLevel) -> psycopg.Connection:
    connection = psycopg.connect(url)
    connection.isolation_level = level
    connection.execute("select count(*) from rowcall_job")  # what it sees at the higher levels is decided now
    return connection


def a_session_waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute("select 1 from pg_locks where locktype = 'advisory' and not granted").fetchall()
    return found != []


@pytest.mark.parametrize("first_ends", ["commit", "rollback"])
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_on_a_server_the_second_waits_for_the_first(
    jobs: Rowcall, postgres_url: str, level: IsolationLevel, first_ends: str
) -> None:
    with connected(postgres_url, level) as first, connected(postgres_url, level) as second:
        mine = jobs.enqueue("send", {"to": "a"}, key="k", connection=first)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: jobs.enqueue("send", {"to": "b"}, key="k", connection=second))
            eventually(lambda: a_session_waits(postgres_url), message="the second waits")
            getattr(first, first_ends)()
            theirs = waiting.result()
        assert theirs.duplicate is (first_ends == "commit")
        assert (theirs.id == mine.id) is (first_ends == "commit")
        assert second.execute("select 1").fetchone() == (1,)
        second.commit()
    (only,) = jobs.list().jobs
    assert only.id == theirs.id


@pytest.mark.parametrize("level", LEVELS[1:], ids=lambda level: level.name)
def test_a_snapshot_that_is_too_old_breaks_nothing(jobs: Rowcall, postgres_url: str, level: IsolationLevel) -> None:
    with connected(postgres_url, level) as mine:
        written = jobs.enqueue("send", {"to": "a"}, key="k", delay=60)
        again = jobs.enqueue("send", {"to": "b"}, key="k", connection=mine)
        assert (again.id, again.duplicate, again.payload) == (written.id, True, {"to": "a"})
        with pytest.raises(DuplicateJob):
            jobs.enqueue("send", key="k", on_duplicate="raise", connection=mine)
        with pytest.raises(Conflict, match="cannot be replaced from there"):
            jobs.enqueue("send", key="k", on_duplicate="replace", connection=mine)
        assert mine.execute("select 1").fetchone() == (1,)
        assert not jobs.enqueue("send", key="another", connection=mine).duplicate
        mine.commit()
    assert sorted(job.key or "" for job in jobs.list().jobs) == ["another", "k"]


@pytest.mark.parametrize("level", LEVELS[1:], ids=lambda level: level.name)
def test_what_has_changed_since_is_taken_as_it_is(jobs: Rowcall, postgres_url: str, level: IsolationLevel) -> None:
    done, waits = jobs.enqueue("send", key="done"), jobs.enqueue("send", key="waits", delay=60)
    with connected(postgres_url, level) as mine:
        jobs.complete(jobs.claim("hand")[0])
        jobs.enqueue("send", {"to": "b"}, key="waits", delay=60, on_duplicate="replace")
        new = jobs.enqueue("send", key="done", connection=mine)
        assert (new.duplicate, new.id == done.id) == (False, False)  # it has finished, though not in this snapshot
        assert jobs.enqueue("send", key="done", connection=mine).id == new.id
        same = jobs.enqueue("send", key="waits", connection=mine)
        assert (same.id, same.payload) == (waits.id, {"to": "b"})
        with pytest.raises(Conflict, match="cannot be replaced from there"):
            jobs.enqueue("send", key="waits", on_duplicate="replace", connection=mine)
        assert mine.execute("select 1").fetchone() == (1,)
        mine.commit()
    assert len(jobs.list().jobs) == 3


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_a_job_that_was_started_meanwhile_is_not_replaced(
    jobs: Rowcall, postgres_url: str, level: IsolationLevel
) -> None:
    """It is not a waiting job any more, whatever the snapshot shows: the new one is the only one that waits."""
    started = jobs.enqueue("send", {"to": "a"}, key="k")
    with connected(postgres_url, level) as mine:
        assert [job.id for job in jobs.claim("hand")] == [started.id]
        new = jobs.enqueue("send", {"to": "b"}, key="k", delay=60, on_duplicate="replace", connection=mine)
        assert (new.duplicate, new.id == started.id) == (False, False)
        again = jobs.enqueue("send", {"to": "c"}, key="k", delay=60, on_duplicate="replace", connection=mine)
        assert (again.duplicate, again.id, again.payload) == (True, new.id, {"to": "c"})
        mine.commit()
    assert (jobs.get(started).status, jobs.get(started).payload) == ("running", {"to": "a"})
    assert [job.payload for job in jobs.list(status=["pending", "scheduled"]).jobs] == [{"to": "c"}]


@pytest.mark.parametrize("level", LEVELS[1:], ids=lambda level: level.name)
def test_what_has_not_changed_can_be_replaced(jobs: Rowcall, postgres_url: str, level: IsolationLevel) -> None:
    waits = jobs.enqueue("send", {"to": "a"}, key="k", delay=60)
    with connected(postgres_url, level) as mine:
        again = jobs.enqueue("send", {"to": "b"}, key="k", delay=60, on_duplicate="replace", connection=mine)
        assert (again.id, again.payload) == (waits.id, {"to": "b"})
        mine.commit()
    assert jobs.get(waits.id).payload == {"to": "b"}


def test_in_a_file_the_second_waits_or_gets_an_error(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with (
        Rowcall(path) as jobs,
        closing(sqlite3.connect(path, timeout=30)) as first,
        closing(sqlite3.connect(path, timeout=0, check_same_thread=False)) as second,
    ):
        mine = jobs.enqueue("send", key="k", connection=first)
        with pytest.raises(StoreUnavailable):
            jobs.enqueue("send", key="k", connection=second)
        first.commit()
        theirs = jobs.enqueue("send", key="k", connection=second)
        assert (theirs.id, theirs.duplicate) == (mine.id, True)
        second.commit()
        assert len(jobs.list().jobs) == 1
