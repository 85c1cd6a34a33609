"""Blobs that are gone, damaged or out of reach."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.domain.blobs import BLOB_KEY
from rowcall.operations.blobs import collect_blobs
from tests.blobs.conftest import Open
from tests.blobs.support import TEXT, Shelves, digest_in_row
from tests.support import eventually

CODES = {"remove": "PAYLOAD:BLOB_MISSING", "damage": "PAYLOAD:BLOB_DAMAGED"}


@pytest.fixture(params=["remove", "damage"])
def harm(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("is_async", [False, True])
def test_the_attempt_fails_and_the_next_one_may_find_it(jobs: Rowcall, harm: str, is_async: bool) -> None:
    ran: list[str] = []

    def shout(text: str) -> None:
        ran.append(text)

    async def ashout(text: str) -> None:
        ran.append(text)

    declare = jobs.task(name="shout", max_attempts=2)
    job = (declare(ashout) if is_async else declare(shout)).enqueue(TEXT)
    shelves, digest = Shelves(jobs), digest_in_row(jobs, job)
    assert digest is not None
    getattr(shelves, harm)(digest)
    assert jobs.drain().retried == 1
    (attempt,) = jobs.attempts(job.id)
    assert (attempt.error_code, attempt.status, ran) == (CODES[harm], "failed", [])
    assert digest in str(attempt.error_detail)
    if harm == "damage":
        shelves.remove(digest)
    shelves.put(f'{{"text":"{TEXT}"}}'.encode())
    jobs.cancel(job.id)
    jobs.retry(job.id)
    assert jobs.drain().succeeded == 1
    assert ran == [TEXT]


def test_by_hand_the_attempt_fails_and_the_others_are_given(jobs: Rowcall, harm: str) -> None:
    bad = jobs.enqueue("task", {"text": TEXT}, max_attempts=1)
    good = jobs.enqueue("task", {"text": TEXT + "2"})
    digest = digest_in_row(jobs, bad)
    assert digest is not None
    getattr(Shelves(jobs), harm)(digest)
    claimed = jobs.dequeue("me")  # the bad one comes first, and is not the end of the queue
    assert claimed is not None
    assert claimed.id == good.id
    found = jobs.get(bad.id)
    assert (found.status, found.error_code) == ("failed", CODES[harm])


def test_a_job_can_be_looked_at_without_its_payload(jobs: Rowcall, harm: str, caplog: pytest.LogCaptureFixture) -> None:
    job = jobs.enqueue("task", {"text": TEXT})
    digest = digest_in_row(jobs, job)
    assert digest is not None
    getattr(Shelves(jobs), harm)(digest)
    with caplog.at_level(logging.WARNING, "rowcall"):
        assert BLOB_KEY in jobs.get(job.id).payload
    assert digest in caplog.text


class Shop:
    """A store of the user's own, which can be shut."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.is_shut = False

    def put(self, digest: str, data: bytes) -> None:
        self._enter()
        self.kept[digest] = data

    def get(self, digest: str) -> bytes:
        self._enter()
        return self.kept[digest]

    def digests(self, older_than_seconds: float) -> list[str]:
        return list(self.kept)

    def delete(self, digest: str, older_than_seconds: float) -> None:
        self.kept.pop(digest, None)

    def _enter(self) -> None:
        if self.is_shut:
            raise ConnectionError("closed")


def test_a_store_of_the_users_own(open_queue: Open) -> None:
    shop = Shop()
    jobs = open_queue(blobs=shop)

    @jobs.task
    def shout(text: str) -> str:
        return text.upper()

    job = shout.enqueue(TEXT)
    assert shop.kept == {digest_in_row(jobs, job): f'{{"text":"{TEXT}"}}'.encode()}
    assert Shelves(jobs).digests == set()
    jobs.drain()
    assert jobs.get(job.id).result == TEXT.upper()
    assert collect_blobs(queue_of(jobs), 0) == 0
    jobs.delete(job.id)
    assert (collect_blobs(queue_of(jobs), 0), shop.kept) == (2, {})


def test_a_store_that_is_shut(open_queue: Open) -> None:
    shop = Shop()
    jobs = open_queue(blobs=shop)

    @jobs.task
    def shout(text: str) -> str:
        return text

    job = shout.enqueue(TEXT)
    shop.is_shut = True
    with pytest.raises(ConnectionError):
        shout.enqueue(TEXT + "2")
    with pytest.raises(ConnectionError):
        jobs.dequeue("me")
    released = jobs.list().jobs[0]
    assert (released.status, released.attempt) == ("pending", 0)
    assert jobs.drain().retried == 1
    assert jobs.attempts(job.id)[-1].error_code == "DEPENDENCY:CONNECTION"


def test_a_store_that_shuts_before_the_result_is_put(open_queue: Open) -> None:
    shop = Shop()
    jobs = open_queue(blobs=shop)

    @jobs.task
    def shout(text: str) -> str:
        shop.is_shut = True
        return text + "!"

    @jobs.task
    async def ashout(text: str) -> str:
        return shout(text)

    for task in (shout, ashout):
        shop.is_shut = False
        job = task.enqueue(TEXT)
        assert jobs.drain().retried == 1
        assert jobs.attempts(job.id)[-1].error_code == "DEPENDENCY:CONNECTION"
        jobs.cancel(job.id)


class SlowShop(Shop):
    """Once locked, it neither reads nor writes before its door is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.door = threading.Event()
        self.door.set()

    def _enter(self) -> None:
        assert self.door.wait(20), "the door stayed closed: the event loop is blocked"


@pytest.mark.parametrize("slow", ["payload", "result"])
def test_a_slow_store_does_not_hold_up_the_event_loop(open_queue: Open, slow: str) -> None:
    shop = SlowShop()
    jobs = open_queue(blobs=shop)

    @jobs.task
    async def shout(text: str) -> str:
        if slow == "result":
            shop.door.clear()
        return text + TEXT

    @jobs.task
    async def open_the_door() -> None:
        await asyncio.get_running_loop().run_in_executor(None, lambda: eventually(lambda: not shop.door.is_set()))
        shop.door.set()

    job = shout.enqueue(TEXT if slow == "payload" else "")
    open_the_door.enqueue()
    if slow == "payload":
        shop.door.clear()
    assert jobs.drain().succeeded == 2
    assert jobs.get(job.id).result == (TEXT if slow == "payload" else "") + TEXT
