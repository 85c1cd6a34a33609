"""`AsyncResult` and `GroupResult`: a job, or several, as Celery shows them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

from rowcall.app import Rowcall
from rowcall.base.text import whole_number
from rowcall.domain.errors import InvalidOption, JobCancelled, JobFailed, JobNotFound, WrongState
from rowcall.domain.job import FINISHED, Job, Status
from rowcall.integrations.celery import states
from rowcall.integrations.celery.current import App, current_app
from rowcall.integrations.celery.eager import EagerResult
from rowcall.integrations.celery.values import unpacked

_STATES = {
    Status.RUNNING: states.STARTED,
    Status.SUCCEEDED: states.SUCCESS,
    Status.FAILED: states.FAILURE,
    Status.CANCELLED: states.REVOKED,
}


class ReportedState(msgspec.Struct):
    """What `update_state` has written as the progress of a job."""

    state: str
    meta: object = None


class AsyncResult:
    """The job that a call enqueued. Its id is the number of the job, as a text.

    result = add.delay(1, 2)
    result.get(timeout=10)  # 3, or JobFailed
    """

    def __init__(self, id: str | int, jobs: Rowcall | None = None, *, app: App | None = None) -> None:
        self.id = str(id)
        if whole_number(self.id) is None:
            raise InvalidOption(
                "id", f"must be the number of a job, got {id!r}; results of Celery stay in its own store"
            )
        self._jobs = jobs if jobs is not None else (app or current_app()).jobs

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __str__(self) -> str:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def task_id(self) -> str:
        return self.id

    @property
    def job(self) -> Job:
        """Read the job. `JobNotFound` if it was deleted."""
        return self._jobs.get(int(self.id))

    @property
    def state(self) -> str:
        """The state. PENDING also for a job that does not exist, as with Celery."""
        job = self._found()
        if job is None:
            return states.PENDING
        if (said := _reported(job)) is not None:
            return said.state
        waits_again = job.status == Status.SCHEDULED and job.attempt > 0
        return states.RETRY if waits_again else _STATES.get(Status(job.status), states.PENDING)

    status = state

    def ready(self) -> bool:
        return self.state in states.READY_STATES

    def successful(self) -> bool:
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        return self.state == states.FAILURE

    @property
    def result(self) -> object:
        """The result, the error of a job that failed or was revoked, what `update_state` said last, or None."""
        job = self._found()
        if job is None:
            return None
        if job.status in FINISHED:
            return self.get(timeout=0, propagate=False)
        said = _reported(job)
        return None if said is None else unpacked(said.meta)

    info = result

    def _found(self) -> Job | None:
        try:
            return self.job
        except JobNotFound:
            return None

    @property
    def traceback(self) -> str | None:
        attempts = self._jobs.attempts(int(self.id))
        return attempts[-1].traceback if attempts else None

    @property
    def parent(self) -> AsyncResult | GroupResult | None:
        """What this job waits for, or waited for: the call before it in a chain."""
        before = [AsyncResult(one.id, self._jobs) for one in self._jobs.blockers(int(self.id))]
        return GroupResult(before) if len(before) > 1 else before[0] if before else None

    def get(
        self,
        timeout: float | timedelta | None = None,
        propagate: bool = True,
        interval: float = 0.5,
        disable_sync_subtasks: bool = True,
    ) -> object:
        """Wait for the job, and return its result. Raise `JobFailed`, `JobCancelled` or `TimeoutError`.

        `interval` and `disable_sync_subtasks` have no effect: the database notifies, and a handler may wait.
        """
        try:
            return unpacked(self._jobs.result(int(self.id), timeout=timeout))
        except (JobFailed, JobCancelled) as error:
            if propagate:
                raise
            return error

    wait = get

    def revoke(self, terminate: bool = False, signal: str | None = None) -> None:
        """Cancel the job; a running one is asked to stop. Nothing happens if it has ended."""
        with contextlib.suppress(WrongState, JobNotFound):
            self._jobs.cancel(int(self.id))

    def forget(self) -> None:
        """Delete the job."""
        self._jobs.delete(int(self.id))


def _reported(job: Job) -> ReportedState | None:
    if job.status == Status.RUNNING and job.progress_message is not None:
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(job.progress_message, type=ReportedState)
    return None


class GroupResult:
    """The results of a group, in its order."""

    def __init__(self, results: Sequence[AsyncResult | EagerResult]) -> None:
        self.results = list(results)

    def __repr__(self) -> str:
        return f"<GroupResult: {[result.id for result in self.results]}>"

    def __iter__(self) -> Iterator[AsyncResult | EagerResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> AsyncResult | EagerResult:
        return self.results[index]

    def get(self, timeout: float | timedelta | None = None, propagate: bool = True, interval: float = 0.5) -> object:
        """Wait for all, and return their results. `timeout` is for each of them."""
        return [result.get(timeout, propagate) for result in self.results]

    join = join_native = get

    def ready(self) -> bool:
        return all(result.ready() for result in self.results)

    def waiting(self) -> bool:
        return not self.ready()

    def successful(self) -> bool:
        return all(result.successful() for result in self.results)

    def failed(self) -> bool:
        return any(result.failed() for result in self.results)

    def completed_count(self) -> int:
        return sum(result.successful() for result in self.results)

    def revoke(self, terminate: bool = False, signal: str | None = None) -> None:
        for result in self.results:
            result.revoke()

    def forget(self) -> None:
        for result in self.results:
            result.forget()
