"""What the handlers of a drain raised, for a caller who asked for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from rowcall.domain.errors import Control, JobFailed
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import Transition
from rowcall.worker.attempt import Attempt


class RaisedErrors:
    """Keeps the exceptions of jobs whose latest attempt failed."""

    def __init__(self) -> None:
        self._failed: dict[int, Exception] = {}

    def settled(self, attempts: Iterable[Attempt], settled: Collection[int]) -> None:
        for attempt in attempts:
            job_id, transition = attempt.ready.id, attempt.transition
            if job_id in settled and transition is not None:
                self._failed.pop(job_id, None)
                if (error := _error_of(attempt, transition)) is not None:
                    self._failed[job_id] = error

    def raise_all(self) -> None:
        """Raise the only exception, or all of them as a group, in the order of their jobs."""
        errors = [self._failed[job_id] for job_id in sorted(self._failed)]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"{len(errors)} jobs failed", errors)


@contextmanager
def raising(raise_errors: bool) -> Iterator[RaisedErrors | None]:
    """Yield what keeps the errors, and raise them at the end of the block. Without `raise_errors`, yield None."""
    errors = RaisedErrors() if raise_errors else None
    yield errors
    if errors is not None:
        errors.raise_all()


def _error_of(attempt: Attempt, transition: Transition) -> Exception | None:
    error = attempt.kept_error
    if transition.move is Move.RETRY and isinstance(error, Control):
        return None  # `Retry`: the handler asked for another attempt
    if transition.move not in (Move.FAIL, Move.RETRY):
        return None
    if isinstance(error, Exception):
        return error
    failed = JobFailed(attempt.ready.id, transition.error_code or "", transition.error_detail)
    failed.__cause__ = error
    return failed
