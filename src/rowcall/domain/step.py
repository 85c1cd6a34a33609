"""Durable steps of a handler: what is recorded about them, and what an attempt writes."""

from datetime import datetime
from enum import StrEnum

import msgspec

from rowcall.domain.payload import CHANGED_CODE as CHANGED_CODE
from rowcall.domain.value import Value

DUPLICATE_CODE = "STEPS:DUPLICATE_NAME"
NOT_ALLOWED_CODE = "STEPS:NOT_ALLOWED"
NOT_AWAITED_CODE = "STEPS:NOT_AWAITED"
NO_SIGNAL_CODE = "TIMEOUT:SIGNAL"
WRONG_SIGNAL_CODE = "INVALID_INPUT:SIGNAL"

FOREVER_MS = 253_402_214_400_000
"""When a job runs that waits for a signal without a timeout: the last day that Python knows."""


class StepKind(StrEnum):
    """Which call made a step: `ctx.step`, `ctx.sleep`, `ctx.wait_for` (`wait`), `ctx.call`, `ctx.first` or
    `ctx.patched` (`patch`). It is a `str`.
    """

    STEP = "step"
    SLEEP = "sleep"
    WAIT = "wait"
    CALL = "call"
    FIRST = "first"
    PATCH = "patch"


class StepStatus(StrEnum):
    """The state of a step. `waiting`: it sleeps, waits for a signal or a child, or will be tried again. `failed` and
    `cancelled`: its child has ended so. `abandoned`: another wait of its `ctx.first` came first. It is a `str`.
    """

    FINISHED = "finished"
    WAITING = "waiting"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"


PAUSES = (StepKind.SLEEP, StepKind.WAIT, StepKind.CALL, StepKind.FIRST)
"""The kinds of steps at which an attempt ends, to continue later."""

NAMELESS = (StepKind.SLEEP, StepKind.FIRST, StepKind.PATCH)
"""The kinds of steps from which a job cannot run again: their names are not those of calls."""


class RecordedStep(Value, frozen=True, kw_only=True):
    """A step of a job, as it is stored: `ctx.step`, `ctx.sleep`, `ctx.wait_for` or `ctx.call`.

    `attempt` is the attempt that wrote it last. `due_at` is when a sleep ends, a wait times out, or a step that failed
    is tried again. `result` is what the step or the child returned, or what the signal brought. `question` has the
    `prompt` and the `choices` of a wait, and `expects` is the JSON Schema of the value that it takes. `child_id` is the
    job that a call has enqueued; its task is the name of the step.
    """

    position: int
    kind: StepKind
    name: str
    status: StepStatus
    attempt: int
    failures: int
    started_at: datetime
    due_at: datetime | None
    finished_at: datetime | None
    error_code: str | None
    error_detail: str | None
    result: object
    question: dict[str, object] | None = None
    expects: dict[str, object] | None = None
    child_id: int | None = None
    type: str = ""

    _hidden = ("type",)  # the job has it; what is encrypted is bound to it


class OpenWait(Value, frozen=True, kw_only=True):
    """A wait of a handler for a signal that has not come. `type` and `queue` are those of the job.

    `position` is its number among the steps of the job. `question` has the `prompt` and the `choices` that
    `ctx.wait_for` was called with, and `expects` is the JSON Schema of the value that it takes.
    """

    job_id: int
    type: str
    queue: str
    position: int
    name: str
    asked_at: datetime
    due_at: datetime | None
    question: dict[str, object] | None
    expects: dict[str, object] | None


class OpenWaits(Value, frozen=True, kw_only=True):
    """One page of open waits, the longest first; `next_cursor` is None on the last page."""

    waits: list[OpenWait]
    next_cursor: str | None = None


class StepRow(msgspec.Struct, frozen=True):
    """A step as an attempt reads it. `due_in_ms` is by the clock of the database."""

    position: int
    kind: str
    name: str
    status: str
    failures: int
    due_at_ms: int | None
    due_in_ms: int | None
    result: str | None
    child_id: int | None = None
    error_code: str | None = None
    error_detail: str | None = None

    @property
    def is_over(self) -> bool:
        is_due = self.due_in_ms is not None and self.due_in_ms <= 0
        return self.status != StepStatus.WAITING or (self.kind == StepKind.SLEEP and is_due)


class StepWritten(msgspec.Struct, frozen=True):
    """How a step was written: `result` is what the signal brought."""

    status: StepStatus
    due_at_ms: int | None = None
    result: str | None = None
    child_id: int | None = None
