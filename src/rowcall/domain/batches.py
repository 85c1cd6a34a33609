"""A batch: a named group of jobs with counts. (A task that takes several jobs in one call is a batch handler.)"""

from datetime import datetime
from typing import Annotated

import msgspec

from rowcall.domain.value import Value

LONGEST_NAME = 200


class BatchKey:
    """The id and the name of a batch."""

    def __init__(self, batch_id: int, name: str) -> None:
        self.id = batch_id
        self.name = name

    def __repr__(self) -> str:
        return f"<batch {self.id}: {self.name!r}>"


class BatchInfo(Value, frozen=True, kw_only=True):
    """A batch as it was when it was read. A task that takes one, `batch: BatchInfo`, can be `on_finish`.

    `status` is `"open"` (jobs can be added), `"sealed"` or `"finished"`: sealed, and all jobs have ended. `progress` is
    the share of the jobs that have ended, from 0 to 1. `on_finish` and `on_success` are the tasks that follow, and
    `finish_job` and `success_job` the jobs of these, once they were enqueued.
    """

    id: int
    name: str
    status: str
    created_at: datetime
    sealed_at: datetime | None = None
    finished_at: datetime | None = None
    total: int = 0
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    progress: float = 0.0
    on_finish: str | None = None
    on_success: str | None = None
    finish_job: int | None = None
    success_job: int | None = None

    @property
    def ended(self) -> int:
        """Return how many jobs have ended, in whatever way."""
        return self.succeeded + self.failed + self.cancelled


class BatchPage(Value, frozen=True, kw_only=True):
    """One page of batches, newest first; `next_cursor` is None on the last page."""

    batches: list[BatchInfo]
    next_cursor: str | None = None


_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
_Whole = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Attempts = Annotated[int, msgspec.Meta(ge=1, lt=2**30)]
_Seconds = Annotated[float, msgspec.Meta(ge=1e-6, le=1e10)]


class Callback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that is enqueued when a batch has finished. Without a payload, it gets the batch."""

    type: _Name
    queue: _Name
    priority: _Whole = 0
    max_attempts: _Attempts = 5
    timeout_seconds: _Seconds | None = None
    retry: str | None = None
    tags: list[str] | None = None
    on_end: dict[str, dict[str, object]] | None = None
    payload: str | None = None


_decode = msgspec.json.Decoder(Callback).decode


def callback_to_text(callback: Callback) -> str:
    return msgspec.json.encode(callback).decode()


def callback_from_text(text: str | None) -> Callback | None:
    """Return the callback, or None for what plain SQL wrote there and cannot be read: it must not stop ends of jobs."""
    try:
        return None if text is None else _decode(text)
    except msgspec.DecodeError:
        return None
