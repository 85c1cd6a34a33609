"""Jobs whose rows cannot be read. Plain SQL may have written anything, and reading it may raise anything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from rowcall.base.text import DETAIL_LENGTH, storable
from rowcall.domain.backoff import backoff_from_text
from rowcall.domain.outcome import AttemptBudget, Transition, Unfit, decide
from rowcall.store.queries.claims import Ready

UNREADABLE_CODE = "INVALID_INPUT:UNREADABLE_ROW"

V = TypeVar("V")


class Unreadable(NamedTuple):
    """A job, and how it ends."""

    job: Ready
    transition: Transition


class Unread:
    """The jobs of one transaction that could not be read, by id. Each of them fails; the others are not affected."""

    def __init__(self) -> None:
        self.jobs: dict[int, Unreadable] = {}

    def read(self, job: Ready, what: str, read: Callable[[Ready], V]) -> V | None:
        """Return `read(job)`, or None if it raises: then the job is kept here."""
        try:
            return read(job)
        except Exception as error:
            too_deep = isinstance(error, RecursionError)
            why = "it is nested too deeply" if too_deep else f"{type(error).__name__}: {error}"
            problem = storable(f"{what} cannot be read: {why}", DETAIL_LENGTH)
            transition = decide(AttemptBudget(job.attempt, job.max_attempts), Unfit(UNREADABLE_CODE, problem))
            self.jobs[job.id] = Unreadable(job, transition)
            return None

    def readable(self, ready: list[Ready]) -> list[Ready]:
        """Return the jobs whose columns can be read; limits are read where they are needed."""
        for job in ready:
            self.read(job, "the column retry", _read_retry)
        return [job for job in ready if job.id not in self.jobs]


def _read_retry(job: Ready) -> None:
    if job.retry is not None:
        with contextlib.suppress(ValueError):  # JSON, but not a policy: use the policy of the task
            backoff_from_text(job.retry)
