"""The app's own queue, with an empty database for a while."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Encryption, InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.testing import FakeClock, clean_queue
from rowcall.testing.clean_queue import queues_in_modules
from tests.testing import queues


def test_the_queue_is_empty_each_time_and_ids_begin_at_1() -> None:
    for _ in range(2):
        with clean_queue(queues.jobs) as clock:
            assert queues.jobs.list().jobs == []
            job = queues.send_email.enqueue("a")
            assert (job.id, job.run_at) == (1, clock.now())
            assert queues.jobs.drain(raise_errors=True).succeeded == 1
            assert asyncio.run(queues.jobs.aget(job)).result == "hi to a"


def test_the_database_and_clock_of_the_app_come_back(tmp_path: Path) -> None:
    clock = FakeClock()
    with Rowcall(tmp_path / "app.db", clock=clock, default_queue="web") as jobs:
        jobs.enqueue("real")
        with clean_queue(jobs):
            assert jobs.enqueue("test").queue == "web"
        assert [job.type for job in jobs.list()] == ["real"]
        assert queue_of(jobs).clock is clock


def test_an_app_factory_may_configure_the_queue_in_each_test(tmp_path: Path) -> None:
    jobs = Rowcall()

    @jobs.task
    def plain() -> None: ...

    for queue in ("web", "api"):
        with clean_queue(jobs):
            jobs.configure(tmp_path / "app.db", default_queue=queue)
            assert plain.enqueue().queue == queue
    assert not (tmp_path / "app.db").exists()
    with jobs:
        assert plain.enqueue().queue == "api"
    assert (tmp_path / "app.db").exists()


def test_another_url_is_emptied_first(postgres_url: str, tmp_path: Path) -> None:
    with Rowcall(postgres_url) as other:
        other.enqueue("left over")
    jobs = Rowcall(tmp_path / "app.db")
    with clean_queue(jobs, url=postgres_url):
        assert jobs.enqueue("test").id == 1
        assert len(jobs.list()) == 1


def test_it_is_used_once_at_a_time(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")
    with clean_queue(jobs), pytest.raises(InvalidOption, match="once at a time"), clean_queue(jobs):
        pass
    assert not queue_of(jobs).is_swapped


def test_a_connection_of_the_app_is_refused_with_both_places(tmp_path: Path) -> None:
    said = r"app\.db, but this queue is in .*memory\.db"
    with (
        clean_queue(queues.jobs),
        closing(sqlite3.connect(tmp_path / "app.db")) as connection,
        pytest.raises(InvalidOption, match=said),
    ):
        queues.send_email.using(connection=connection).enqueue("a")


def test_queues_are_found_in_modules() -> None:
    assert queues.jobs in queues_in_modules()


def test_the_keys_belong_to_the_database(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", encrypt=Encryption(keys=["k" * 43])) as jobs:
        job = jobs.enqueue("charge", {"card": "4111"})
        with clean_queue(jobs):
            inside = jobs.enqueue("charge", {"card": "4112"})
            (claimed,) = jobs.claim("me")
            jobs.fail(claimed, "CARD:REFUSED", "4112 is empty")
            assert (jobs.get(inside).payload, jobs.get(inside).error_detail) == ({"card": "4112"}, "4112 is empty")
        assert jobs.get(job).payload == {"card": "4111"}
