"""`AsyncResult` and `GroupResult`: a job, or several, as Celery shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from rowcall.app import Rowcall
from rowcall.base.text import whole_number
from rowcall.domain.errors import InvalidOption, JobCancelled, JobFailed
from rowcall.domain.job import FINISHED, Job, Status
from rowcall.integrations.celery.current import App, current_app

_STATES = {
    Status.RUNNING: "STARTED",
    Status.SUCCEEDED: "SUCCESS",
    Status.FAILED: "FAILURE",
    Status.CANCELLED: "REVOKED",
}


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
        job = self.job
        waits_again = job.status == Status.SCHEDULED and job.attempt > 0
        return "RETRY" if waits_again else _STATES.get(Status(job.status), "PENDING")

    status = state

    def ready(self) -> bool:
        return self.job.status in FINISHED

    def successful(self) -> bool:
        return self.job.status == Status.SUCCEEDED

    def failed(self) -> bool:
        return self.job.status == Status.FAILED

    @property
    def result(self) -> object:
        """The result, the error of a job that failed or was revoked, or None."""
        if not self.ready():
            return None
        try:
            return self._jobs.result(int(self.id), timeout=0)
        except (JobFailed, JobCancelled) as error:
            return error

    info = result

    @property
    def traceback(self) -> str | None:
        attempts = self._jobs.attempts(int(self.id))
        return attempts[-1].traceback if attempts else None

    def get(self, timeout: float | timedelta | None = None, propagate: bool = True) -> object:
        """Wait for the job, and return its result. Raise `JobFailed`, `JobCancelled` or `TimeoutError`."""
        try:
            return self._jobs.result(int(self.id), timeout=timeout)
        except (JobFailed, JobCancelled) as error:
            if propagate:
                raise
            return error

    wait = get

    def revoke(self) -> None:
        """Cancel the job; a running one is asked to stop."""
        self._jobs.cancel(int(self.id))

    def forget(self) -> None:
        """Delete the job."""
        self._jobs.delete(int(self.id))


class EagerResult:
    """What `apply` returns: the value or the error of a call that has already ended."""

    id = None

    def __init__(self, value: object, failed: bool = False) -> None:
        self.result = self.info = value
        self.state = self.status = "FAILURE" if failed else "SUCCESS"

    def __repr__(self) -> str:
        return f"<EagerResult: {self.state}>"

    def ready(self) -> bool:
        return True

    def successful(self) -> bool:
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        return self.state == "FAILURE"

    def get(self, timeout: float | timedelta | None = None, propagate: bool = True) -> object:
        """Return the value, or raise the error."""
        if propagate and self.failed():
            assert isinstance(self.result, BaseException)
            raise self.result
        return self.result

    wait = get


class GroupResult:
    """The results of a group, in its order."""

    def __init__(self, results: Sequence[AsyncResult]) -> None:
        self.results = list(results)

    def __iter__(self) -> Iterator[AsyncResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def get(self, timeout: float | timedelta | None = None, propagate: bool = True) -> list[object]:
        """Wait for all, and return their results. `timeout` is for each of them."""
        return [result.get(timeout, propagate) for result in self.results]

    join = get

    def ready(self) -> bool:
        return all(result.ready() for result in self.results)

    def successful(self) -> bool:
        return all(result.successful() for result in self.results)

    def failed(self) -> bool:
        return any(result.failed() for result in self.results)

    def completed_count(self) -> int:
        return sum(result.successful() for result in self.results)

    def revoke(self) -> None:
        for result in self.results:
            result.revoke()
