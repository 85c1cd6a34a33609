"""The connection is lost after the server has committed, and before the client learns of it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterator

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.drivers.postgres import connection
from rowcall.drivers.postgres.database import PostgresDatabase
from rowcall.testing import eventually
from rowcall.worker import ownership
from rowcall.worker.settling import Settler
from rowcall.worker.upkeep.recovery import Recovery
from tests.postgres.support import ATTEMPTS, PostgresSite, ask
from tests.postgres.wire import CLAIM, SETTLE, Wire
from tests.worker.support import all_ended, ended


@pytest.fixture
def wire(site: PostgresSite) -> Iterator[Wire]:
    with Wire(site.url) as wire:
        yield wire


@pytest.fixture
def jobs(wire: Wire) -> Iterator[Rowcall]:
    with Rowcall(wire.url) as jobs:
        yield jobs


def payloads(site: PostgresSite) -> list[str]:
    return [text for (text,) in ask(site.url, "select payload ->> 'text' from rowcall_job order by id")]


def test_an_enqueue_says_that_the_job_may_be_there(site: PostgresSite, wire: Wire, jobs: Rowcall) -> None:
    swallowed = wire.swallow_reply_to(b"unheard of")
    with pytest.raises(StoreUnavailable, match="It is unknown whether the last write was committed"):
        jobs.enqueue("note", {"text": "unheard of"})
    assert swallowed.is_set()
    assert payloads(site) == ["unheard of"]
    assert jobs.enqueue("note", {"text": "next"}).id == 2


def test_it_says_so_to_every_member_of_a_shared_commit(site: PostgresSite, wire: Wire, jobs: Rowcall) -> None:
    assert isinstance(queue_of(jobs).database, PostgresDatabase)
    one_commit = queue_of(jobs).database._lock

    async def enqueue_ten() -> list[object]:
        await jobs.aenqueue("note", {"text": "first"})
        wire.swallow_commit_of(b"member 9")
        with one_commit:
            calls = [asyncio.ensure_future(jobs.aenqueue("note", {"text": f"member {number}"})) for number in range(10)]
            await asyncio.sleep(0)
        ended: list[object] = await asyncio.gather(*calls, return_exceptions=True)
        return ended

    for said in asyncio.run(enqueue_ten()):
        assert isinstance(said, StoreUnavailable)
        assert "unknown whether the last write was committed" in str(said)
    assert sorted(payloads(site)) == ["first", *(f"member {number}" for number in range(10))]


def test_many_at_once_are_not_written_again(site: PostgresSite, wire: Wire, jobs: Rowcall) -> None:
    @jobs.task
    def note(text: str) -> None: ...

    wire.swallow_commit_of(b"unheard of")
    with pytest.raises(StoreUnavailable, match="unknown whether the last write was committed"):
        note.enqueue_many([{"text": "unheard of"}] * 100)
    assert payloads(site) == ["unheard of"] * 100


@pytest.mark.parametrize("max_attempts", [1, 5])
def test_what_a_worker_claimed_without_knowing_is_released_and_runs_once(
    site: PostgresSite, wire: Wire, jobs: Rowcall, max_attempts: int
) -> None:
    ran: Counter[int] = Counter()

    @jobs.task
    def count(number: int) -> None:
        ran[number] += 1

    count.using(max_attempts=max_attempts).enqueue_many([{"number": number} for number in range(50)])
    swallowed = wire.swallow_commit_of(CLAIM)
    with jobs.worker():
        all_ended(jobs)
        assert swallowed.is_set()
    assert ran == Counter(range(50))
    assert attempts(site) == {(1, "succeeded"): 50}


@pytest.mark.slow
def test_a_claim_whose_commit_arrives_late_is_released(
    site: PostgresSite, wire: Wire, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was on its way when the worker, on a new connection, made sure that nothing was claimed unknown to it."""
    monkeypatch.setattr(ownership, "DECIDED_SECONDS", 5.0)
    ran: list[str] = []

    @jobs.task
    def note(text: str) -> None:
        ran.append(text)

    late = wire.delay_commit_of(CLAIM)
    first = note.enqueue("late")
    with jobs.worker(lease=1) as worker:
        assert late.wait(20)
        assert ended(jobs, note.using(queue="other").enqueue("in between")).status == "succeeded"
        assert jobs.get(first.id).status == "pending"
        wire.deliver.set()
        eventually(lambda: jobs.get(first.id).worker == worker.name, message="the late commit")
        assert ended(jobs, first).attempt == 1
    assert ran == ["in between", "late"]


def test_a_worker_that_ends_releases_a_claim_whose_commit_arrives_late(
    site: PostgresSite, wire: Wire, jobs: Rowcall
) -> None:
    @jobs.task
    def note(text: str) -> None: ...

    late = wire.delay_commit_of(CLAIM)
    first = note.enqueue("late")
    with jobs.worker() as worker:
        assert late.wait(20)
        assert ended(jobs, note.using(queue="other").enqueue("in between")).status == "succeeded"
        wire.deliver.set()
        eventually(lambda: jobs.get(first.id).worker == worker.name, message="the late commit")
    left = jobs.get(first.id)
    assert (left.status, left.attempt) == ("pending", 0)


def test_a_drain_that_cannot_begin_leaves_no_listener(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(recovery: Recovery) -> int:
        raise StoreUnavailable("the connection is gone", "Try again")

    monkeypatch.setattr(Recovery, "check", fail)
    with pytest.raises(StoreUnavailable, match="is gone"):
        jobs.drain()
    eventually(lambda: "rowcall-listener" not in {thread.name for thread in threading.enumerate()}, message="its end")


def test_a_worker_that_was_registered_without_knowing_is_found_dead_at_once(
    site: PostgresSite, wire: Wire, jobs: Rowcall
) -> None:
    wire.swallow_commit_of(b"insert into rowcall_worker")
    with pytest.raises(StoreUnavailable, match="unknown whether the last write was committed"):
        jobs.drain()
    assert len(jobs.workers()) == 1
    jobs.drain()
    assert jobs.workers() == []


@pytest.mark.slow
def test_what_a_lost_connection_still_holds_is_settled_when_the_server_lets_it_go(
    site: PostgresSite, wire: Wire, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit never arrives. Until the server ends that transaction, its rows are locked, and still running."""
    monkeypatch.setattr(connection, "LONGEST_SILENCE_SECONDS", 1)
    ran: Counter[int] = Counter()

    @jobs.task
    def count(number: int) -> None:
        ran[number] += 1

    count.enqueue_many([{"number": number} for number in range(10)])
    never = wire.delay_commit_of(SETTLE)
    with jobs.worker(lease=1):
        assert never.wait(20)
        all_ended(jobs)
    assert ran == Counter(range(10))
    assert attempts(site) == {(1, "succeeded"): 10}


def test_a_handler_that_ends_just_then_is_not_taken_for_unknown(
    site: PostgresSite, wire: Wire, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: Counter[str] = Counter()
    gate = threading.Event()

    @jobs.task
    def held() -> None:
        ran["held"] += 1
        assert gate.wait(20)

    @jobs.task
    def quick() -> None:
        ran["quick"] += 1

    make_sure = Settler.make_sure

    def make_sure_late(settler: Settler, holders: Collection[int]) -> None:
        gate.set()
        eventually(lambda: settler._dispatcher.has_ended)
        make_sure(settler, holders)

    monkeypatch.setattr(Settler, "make_sure", make_sure_late)
    swallowed = wire.swallow_commit_of(b"{2}")  # the claim of the second job
    held.enqueue()
    with jobs.worker(concurrency=2):
        eventually(lambda: ran["held"])
        quick.enqueue()
        all_ended(jobs)
        assert swallowed.is_set()
    assert ran == {"held": 1, "quick": 1}
    assert attempts(site) == {(1, "succeeded"): 2}


def test_what_it_settled_without_knowing_is_reported_as_done(
    site: PostgresSite, wire: Wire, jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    ran: Counter[int] = Counter()

    @jobs.task
    def count(number: int) -> None:
        ran[number] += 1

    count.enqueue_many([{"number": number} for number in range(50)])
    swallowed = wire.swallow_commit_of(SETTLE)
    with caplog.at_level(logging.INFO, "rowcall"):
        assert jobs.drain().succeeded == 50
    assert swallowed.is_set()
    assert ran == Counter(range(50))
    assert attempts(site) == {(1, "succeeded"): 50}
    said = [record.getMessage() for record in caplog.records]
    assert len([text for text in said if "out of reach" in text]) == 1
    assert [text for text in said if "dropped the outcome" in text] == []


def attempts(site: PostgresSite) -> Counter[tuple[int, str]]:
    return Counter((attempt, status) for _, attempt, status, _ in ask(site.url, ATTEMPTS))
