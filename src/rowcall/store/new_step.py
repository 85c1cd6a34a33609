"""What an attempt writes about one step."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowcall.domain.step import StepKind
from rowcall.domain.stream import StreamRow
from rowcall.store.new_job import NewJob


class NewChild(msgspec.Struct, frozen=True):
    """The job that a call enqueues."""

    job: NewJob
    payload: str


class StepWrite(msgspec.Struct, frozen=True):
    """What an attempt writes about one step. `delay_ms` is until its sleep ends, its wait times out, or its next try;
    `due_at_ms` is that time, if an earlier attempt has fixed it.
    """

    job_id: int
    lease: int
    holder: int
    attempt: int
    position: int
    kind: StepKind
    name: str
    ran_ms: int = 0
    result: str | None = None
    finished: bool = False
    failures: int = 0
    error_code: str | None = None
    error_detail: str | None = None
    delay_ms: int | None = None
    due_at_ms: int | None = None
    question: str | None = None
    expects: str | None = None
    values: Sequence[StreamRow] = ()
    """What the handler has appended to streams so far, and may not be written: later attempts do not append it."""
    child: NewChild | None = None
    first_at: int | None = None
    """The position of the `ctx.first` that it is a part of."""
    members: tuple[int, ...] = ()
    """Of a `ctx.first`: the positions of its parts."""
