"""Fifty things that go wrong, on purpose. Each has its own task and queue."""

from __future__ import annotations

import asyncio
import errno
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from rowcall import Backoff, Cancel, Context, Fail, Retention, Retry, Snooze
from tests.observe.scene import DAY, HOUR, Scene, failing, mishap
from tests.support import ForkedProcess

KILLER = """
import os
from rowcall import Rowcall

jobs = Rowcall({url!r})

@jobs.task(name="kills_its_worker", max_attempts=1)
def kill() -> None:
    os._exit(9)

jobs.work(queues=["kills_its_worker"])
"""


class SoldOut(Exception):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def throw(error: BaseException) -> NoReturn:
    raise error


def deeper(level: int = 0) -> int:
    return deeper(level + 1)


def locked() -> None:
    with closing(sqlite3.connect(":memory:", timeout=0)) as file, closing(file.cursor()) as reading:
        file.execute("create table one (number integer)")
        file.execute("insert into one values (1), (2)")
        file.commit()
        next(reading.execute("select * from one"))
        file.execute("drop table one")


# what handlers raise
failing("divides_by_zero", lambda: 1 // 0, "INTERNAL:ZeroDivisionError", "by zero")
failing("misses_a_key", lambda: dict[str, int]()["name"], "INTERNAL:KeyError", "name")
failing("asserts", lambda: throw(AssertionError("never")), "INTERNAL:ASSERTION_FAILED", "never")
failing("runs_out_of_memory", lambda: throw(MemoryError()), "RESOURCE:OUT_OF_MEMORY", "MemoryError")
failing("fills_the_disk", lambda: throw(OSError(errno.ENOSPC, "full")), "RESOURCE:DISK_FULL", "full")
failing("misses_a_file", lambda: Path("no/such/file").read_text(), "OS:ENOENT", "no/such/file")
failing("may_not_read", lambda: throw(PermissionError(errno.EACCES, "no")), "OS:EACCES", "no")
failing("is_refused", lambda: throw(ConnectionRefusedError()), "DEPENDENCY:CONNECTION_REFUSED")
failing("is_reset", lambda: throw(ConnectionResetError("by peer")), "DEPENDENCY:CONNECTION_RESET", "by peer")
failing("waits_for_an_answer", lambda: throw(TimeoutError("30 s")), "TIMEOUT:OPERATION", "30 s")
failing("meets_a_lock", locked, "DEPENDENCY:DB_LOCKED", "locked")
failing("reads_no_json", lambda: json.loads("{"), "INVALID_INPUT:NOT_JSON")
failing("never_comes_back", deeper, "INTERNAL:RecursionError", "recursion")
failing("leaves", lambda: sys.exit(3), "INTERNAL:SystemExit", "3")
failing("is_interrupted", lambda: throw(KeyboardInterrupt()), "INTERNAL:KeyboardInterrupt")
failing("says_nothing", lambda: throw(Exception()), "INTERNAL:Exception", "Exception")
failing("has_no_words", lambda: throw(Unprintable()), "INTERNAL:Unprintable", "str(error) raised")
failing("says_nul", lambda: throw(UnicodeError("a\0b\ud800")), "INTERNAL:UnicodeError", "a\ufffdb?")
failing("says_too_much", lambda: throw(LookupError("x" * 1_000_000)), "INTERNAL:LookupError", "xxx")
failing("fails_twice_at_once", lambda: throw(ExceptionGroup("two", [KeyError(), OSError()])), "INTERNAL:ExceptionGroup")
failing("gives_up", lambda: throw(Fail("BILLING:CARD_DECLINED", "card 4242")), "BILLING:CARD_DECLINED", "card 4242")
failing("returns_no_json", object, "INVALID_OUTPUT:NOT_JSON")


@mishap("failed", attempts=1, code="SHOP:SOLD_OUT", detail="none left")
def has_a_code_of_its_own(scene: Scene) -> Iterator[None]:
    scene.jobs.error_code(SoldOut, "SHOP:SOLD_OUT")
    scene.jobs.task(name="has_a_code_of_its_own", max_attempts=1)(lambda: throw(SoldOut("none left")))
    scene.enqueue("has_a_code_of_its_own")
    yield


@mishap("failed", attempts=1, code="TIMEOUT:HANDLER", detail="timeout of 0.05 s")
def takes_too_long(scene: Scene) -> Iterator[None]:
    @scene.jobs.task(name="takes_too_long", max_attempts=1, timeout=0.05)
    async def wait() -> None:
        await asyncio.Event().wait()

    scene.enqueue("takes_too_long")
    yield


# retries, snoozes, cancellations
@mishap("failed", attempts=3, code="INTERNAL:ArithmeticError", detail="try 3")
def uses_up_its_attempts(scene: Scene) -> Iterator[None]:
    @scene.jobs.task(name="uses_up_its_attempts", max_attempts=3, retry=Backoff.constant(0))
    def fail(ctx: Context) -> None:
        raise ArithmeticError(f"try {ctx.job.attempt}")

    scene.enqueue("uses_up_its_attempts")
    yield


@mishap("scheduled", attempts=1)
def waits_for_its_retry(scene: Scene) -> Iterator[None]:
    task = scene.jobs.task(name="waits_for_its_retry", retry=Backoff.constant(30 * DAY))
    task(lambda: throw(ValueError()))
    scene.enqueue("waits_for_its_retry")
    yield


@mishap("succeeded", attempts=3)
def succeeds_at_last(scene: Scene) -> Iterator[None]:
    @scene.jobs.task(name="succeeds_at_last", retry=Backoff.constant(0))
    def fail_twice(ctx: Context) -> None:
        if ctx.job.attempt < 3:
            raise ValueError

    scene.enqueue("succeeds_at_last")
    yield


@mishap("failed", attempts=2, code="RETRY:REQUESTED", detail="busy")
def asks_to_be_tried_again(scene: Scene) -> Iterator[None]:
    scene.jobs.task(name="asks_to_be_tried_again", max_attempts=2)(lambda: throw(Retry(delay=0, reason="busy")))
    scene.enqueue("asks_to_be_tried_again")
    yield


@mishap("failed", attempts=1, code="INTERNAL:PermanentError")
def is_not_worth_another_try(scene: Scene) -> Iterator[None]:
    permanent = type("PermanentError", (Exception,), {})
    task = scene.jobs.task(name="is_not_worth_another_try", retry=Backoff.constant(0, give_up_on=[permanent]))
    task(lambda: throw(permanent()))
    scene.enqueue("is_not_worth_another_try")
    yield


@mishap("scheduled", attempts=0)
def snoozes_for_ever(scene: Scene) -> Iterator[None]:
    scene.jobs.task(name="snoozes_for_ever")(lambda: throw(Snooze(delay=HOUR)))
    scene.enqueue("snoozes_for_ever")
    yield
    yield


@mishap("cancelled", attempts=1)
def cancels_itself(scene: Scene) -> Iterator[None]:
    scene.jobs.task(name="cancels_itself")(lambda: throw(Cancel("not needed")))
    scene.enqueue("cancels_itself")
    yield


@mishap("cancelled", attempts=0)
def is_cancelled_by_hand(scene: Scene) -> Iterator[None]:
    scene.jobs.cancel(scene.enqueue("is_cancelled_by_hand", delay=HOUR).id, "wrong customer")
    yield


@mishap("cancelled", attempts=0)
def comes_too_late(scene: Scene) -> Iterator[None]:
    scene.jobs.task(name="comes_too_late")(lambda: None)
    scene.enqueue("comes_too_late", delay=90 * 60, expires_in=100 * 60)
    yield
    yield


@mishap("failed", attempts=2, code="INTERNAL:BufferError")
def is_retried_by_hand_in_vain(scene: Scene) -> Iterator[None]:
    scene.jobs.task(name="is_retried_by_hand_in_vain", max_attempts=1)(lambda: throw(BufferError()))
    job = scene.enqueue("is_retried_by_hand_in_vain")
    yield
    scene.jobs.retry(job.id)
    yield


@mishap(None)
def is_deleted_after_it_failed(scene: Scene) -> Iterator[None]:
    scene.jobs.task(name="is_deleted_after_it_failed", max_attempts=1)(lambda: throw(EOFError()))
    job = scene.enqueue("is_deleted_after_it_failed")
    yield
    scene.jobs.delete(job.id)


@mishap("failed", attempts=1, code="TIMEOUT:UPSTREAM_API", detail="no answer")
def is_failed_by_hand(scene: Scene) -> Iterator[None]:
    scene.enqueue("is_failed_by_hand", max_attempts=1)
    scene.jobs.fail(scene.claim("is_failed_by_hand"), "TIMEOUT:UPSTREAM_API", "no answer")
    yield


# what plain SQL writes
def _written(scene: Scene, name: str, payload: str) -> Iterator[None]:
    @scene.jobs.task(name=name)
    def double(number: int) -> int:
        return 2 * number

    scene.sql(f"insert into rowcall_job (type, queue, payload) values ('{name}', '{name}', '{payload}')")
    yield


@mishap("failed", attempts=1, code="INVALID_INPUT:SCHEMA_MISMATCH")
def is_no_object(scene: Scene) -> Iterator[None]:
    return _written(scene, "is_no_object", "[1]")


@mishap("failed", attempts=1, code="INVALID_INPUT:SCHEMA_MISMATCH")
def misses_an_argument(scene: Scene) -> Iterator[None]:
    return _written(scene, "misses_an_argument", "{}")


@mishap("failed", attempts=1, code="INVALID_INPUT:SCHEMA_MISMATCH")
def has_an_argument_too_many(scene: Scene) -> Iterator[None]:
    return _written(scene, "has_an_argument_too_many", '{"number": 1, "more": 2}')


def _failed_long_ago(scene: Scene, name: str) -> None:
    columns, then = "type, queue, status, error_code, created_at, finished_at", scene.at(100 * DAY)
    scene.sql(
        f"insert into rowcall_job ({columns}) values ('{name}', '{name}', 'failed', 'OLD:STORY', ?, ?)", then, then
    )


@mishap("failed", attempts=0, code="OLD:STORY", prunable=True, keep=90 * DAY)
def failed_long_ago(scene: Scene) -> Iterator[None]:
    _failed_long_ago(scene, "failed_long_ago")
    yield


@mishap("failed", attempts=0, code="OLD:STORY", prunable=False, keep=None)
def must_never_be_forgotten(scene: Scene) -> Iterator[None]:
    scene.jobs.task(name="must_never_be_forgotten", retention=Retention(failed=None))(lambda: None)
    _failed_long_ago(scene, "must_never_be_forgotten")
    yield


@mishap("failed", attempts=0, code="")
def nobody_knows_why(scene: Scene) -> Iterator[None]:
    scene.sql("insert into rowcall_job (type, queue, status) values ('nobody_knows_why', 'odd', 'failed')")
    yield


# jobs that no worker runs
@mishap("pending", attempts=0, waits_for=2 * HOUR)
def is_known_to_no_worker(scene: Scene) -> Iterator[None]:
    scene.enqueue("is_known_to_no_worker")
    yield


@mishap("scheduled", attempts=0)
def is_meant_for_the_next_century(scene: Scene) -> Iterator[None]:
    scene.enqueue("is_meant_for_the_next_century", delay=100 * 365 * DAY)
    yield


# claimed by hand, lost and stuck
@mishap("running", attempts=1, worker="by-hand", silent_for=6 * HOUR)
def is_forgotten(scene: Scene) -> Iterator[None]:
    scene.enqueue("is_forgotten")
    scene.claim("is_forgotten")
    yield
    yield


@mishap("running", attempts=1, worker="by-hand", silent_for=4 * HOUR, doing="row 40 of 100")
def goes_on_and_on(scene: Scene) -> Iterator[None]:
    scene.enqueue("goes_on_and_on")
    job = scene.claim("goes_on_and_on")
    yield
    scene.jobs.heartbeat(job)
    scene.sql("update rowcall_claim set progress = 0.4, progress_message = 'row 40 of 100' where job_id = ?", job.id)
    yield


@mishap("running", attempts=1, worker="web-9:7:abc", host="web-9", silent_for=6 * HOUR, worker_silent_for=5 * HOUR)
def hangs_with_its_worker(scene: Scene) -> Iterator[None]:
    columns = "name, host, pid, queues, concurrency, version, lease_ms, started_at, heartbeat_at"
    scene.enqueue("hangs_with_its_worker")
    scene.claim("hangs_with_its_worker", "web-9:7:abc")
    yield
    scene.sql(
        f"insert into rowcall_worker ({columns}) values ('web-9:7:abc', 'web-9', 7, '*', 1, '0', 864000000, ?, ?)",
        *(scene.at(9 * HOUR), scene.at(HOUR)),
    )
    yield


@mishap("failed", attempts=1, code="WORKER:LOST")
def outlives_its_lease(scene: Scene) -> Iterator[None]:
    scene.enqueue("outlives_its_lease", max_attempts=1)
    scene.claim("outlives_its_lease", lease=60)
    yield
    yield


@mishap("failed", attempts=1, code="WORKER:LOST")
def kills_its_worker(scene: Scene) -> Iterator[None]:
    scene.enqueue("kills_its_worker", max_attempts=1)
    with ForkedProcess("-c", KILLER.format(url=scene.url), cwd=str(scene.folder)) as process:
        assert process.wait() == 9
    yield


@mishap("pending", attempts=0, waits_for=2 * HOUR)
def is_given_back_again_and_again(scene: Scene) -> Iterator[None]:
    scene.enqueue("is_given_back_again_and_again")
    for _ in range(3):
        scene.jobs.release(scene.claim("is_given_back_again_and_again"))
    yield
