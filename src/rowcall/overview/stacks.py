"""The stack of a running handler, on any host: a request in the database, which its worker answers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from rowcall.base.times import time_of
from rowcall.domain.config import VERSION
from rowcall.domain.errors import NoAnswer, WrongState, seconds_of
from rowcall.domain.job import Job, Stack, StackFrame, Status, WorkerInfo
from rowcall.operations.effects import Read, Sleep, Uninterrupted, Write
from rowcall.operations.inspect import get_row
from rowcall.overview.liveness import Liveness, described, liveness_of
from rowcall.queue import Operation, Queue
from rowcall.store.queries.control import STACK_REQUEST
from rowcall.store.queries.counts import DROP_SETTING, NOW, PUT_SETTING, SETTING
from rowcall.store.queries.workers import WORKERS

DEFAULT_TIMEOUT_SECONDS = 5.0
CHECK_SECONDS = 0.05
STALE_MS = 3_600_000
_MOVE = "read the stack of"


def stack(queue: Queue, job: Job | int, *, timeout: float | timedelta = DEFAULT_TIMEOUT_SECONDS) -> Operation[Stack]:
    """Return where the handler of a running job is, in any process on any host.

    Raises `WrongState` if no handler of it runs, and `NoAnswer` if its worker does not answer within `timeout`.

    >>> print(jobs.stack(job))  # doctest: +SKIP
      File "/srv/shop/mail.py", line 21, in send_email
        connection.sendmail(sender, to, body)
    """
    seconds = seconds_of("timeout", timeout)
    running = yield from get_row(queue, job)
    worker = yield from _worker_of(queue, running)
    request = f"{STACK_REQUEST}{running.id}:{running.lease}:{round(queue.clock.wall() * 1000)}:{secrets.token_hex(4)}"
    until = queue.clock.timer() + seconds
    try:
        yield from Uninterrupted(iter(Write(queue.dialect.ask, PUT_SETTING, request, "")))  # before it is dropped
        while not (answer := "".join((yield from Read(queue.dialect.ask(SETTING, request))))):
            _check_same(running, (yield from get_row(queue, running)))
            if queue.clock.timer() >= until:
                (now_ms,) = yield from Read(queue.dialect.ask(NOW))
                raise NoAnswer(running.id, worker.name, seconds, _why_silent(worker, time_of(now_ms)))
            yield from Sleep(CHECK_SECONDS)
    finally:
        yield from Uninterrupted(iter(Write(queue.dialect.ask, DROP_SETTING, request)))
    frames = msgspec.json.decode(answer, type=list[StackFrame] | None)
    if frames is None:
        problem = f"worker {worker.name} has claimed it, and has not started its handler yet"
        raise WrongState(running.id, running.status, _MOVE, [Status.RUNNING], problem)
    return Stack(
        job_id=running.id,
        type=running.type,
        attempt=running.attempt,
        worker=worker.name,
        started_at=running.started_at,
        frames=frames,
    )


def _worker_of(queue: Queue, job: Job) -> Operation[WorkerInfo]:
    """Return the worker that runs the job, or raise `WrongState`."""
    if job.status != Status.RUNNING:
        raise WrongState(job.id, job.status, _MOVE, [Status.RUNNING], f"it is {job.status}, not running")
    workers = yield from Read(queue.dialect.ask(WORKERS))
    worker = next((worker for worker in workers if worker.name == job.worker), None)
    if worker is None:
        problem = f"no worker named {job.worker!r} is registered: it was claimed by hand, or its worker has ended"
    elif liveness_of(worker, worker.heartbeat_at) == Liveness.GONE:
        problem = f"worker {worker.name} has died; another worker will recover the job"
    else:
        return worker
    raise WrongState(job.id, job.status, _MOVE, [Status.RUNNING], problem)


def _check_same(before: Job, now: Job) -> None:
    if (now.status, now.lease) != (before.status, before.lease):
        problem = f"its attempt ended before the worker answered; it is {now.status} now"
        raise WrongState(now.id, now.status, _MOVE, [Status.RUNNING], problem)


def _why_silent(worker: WorkerInfo, now: datetime) -> str:
    """Return what may be the reason that a worker does not answer."""
    if worker.version != VERSION:
        return f"it runs version {worker.version} of Rowcall, and this is {VERSION}"
    state = described(worker, now)
    if state != Liveness.ALIVE:
        return f"it is {state}"
    return "it is alive; perhaps a library holds the interpreter, or the database is slow"


def stale_requests(settings: Mapping[str, str], now_ms: int) -> list[str]:
    """Return the requests of processes that died before they could remove them."""
    requests = [name for name in settings if name.startswith(STACK_REQUEST)]
    return [name for name in requests if abs(now_ms - _asked_ms(name)) > STALE_MS]


def _asked_ms(request: str) -> int:
    asked = request.split(":")[3:4]
    return int(asked[0]) if asked and asked[0].isdecimal() else 0
