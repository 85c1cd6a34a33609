"""Claims, and the ways in which an attempt may end: the call on the real side, and its effect on the model."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, TypeVar

from rowcall import Cancel, Fail, Job, Retry, Rowcall, Snooze
from rowcall.domain.failure import raised
from rowcall.domain.outcome import Outcome, Reported, Succeeded
from rowcall.store.queries.claims import Ready
from tests.conformance.model.queue import ModelQueue
from tests.conformance.worker_parts import StoreWorker


class HandClaim(NamedTuple):
    job: Job
    token: int

    @property
    def job_id(self) -> int:
        return self.job.id


class WorkerClaim(NamedTuple):
    ready: Ready
    worker: StoreWorker
    token: int

    @property
    def job_id(self) -> int:
        return self.ready.id


C = TypeVar("C", HandClaim, WorkerClaim)


class End(NamedTuple):
    """A way for an attempt to end: the call on the real side, and its effect on the model."""

    name: str
    error: str | BaseException | None
    in_model: Callable[[ModelQueue, int], None]

    def __repr__(self) -> str:
        return self.name

    def by_hand(self, jobs: Rowcall, job: Job) -> None:
        if self.error is None:
            jobs.complete(job, "done")
        else:
            jobs.fail(job, self.error)


def _end(name: str, error: str | BaseException | None, in_model: Callable[[ModelQueue, int], None]) -> End:
    return End(name, error, in_model)


ENDS = (
    _end("complete", None, lambda model, job: model.complete(job, "done")),
    _end("fail by code", "TEST:CODE", lambda model, job: model.fail(job, "TEST:CODE")),
    _end("fail by exception", ValueError("no"), lambda model, job: model.fail(job, "INTERNAL:ValueError")),
    _end("Retry", Retry(delay=7), lambda model, job: model.fail(job, "RETRY:REQUESTED", pause=timedelta(seconds=7))),
    _end("Snooze", Snooze(delay=20), lambda model, job: model.snooze(job, timedelta(seconds=20))),
    _end("Fail", Fail("TEST:OVER"), lambda model, job: model.give_up(job, "TEST:OVER")),
    _end("Cancel", Cancel("enough"), lambda model, job: model.cancel_from_inside(job)),
)


def outcome_of(end: End) -> Outcome:
    match end.error:
        case None:
            return Succeeded('"done"')
        case str() as code:
            return Reported(code, "")
        case error:
            return raised(error)
