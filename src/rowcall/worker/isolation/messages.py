"""The messages between a worker and its child processes: one JSON object per line."""

from __future__ import annotations

import msgspec

from rowcall.declare.isolation import Home
from rowcall.domain.job import StackFrame
from rowcall.domain.step import StepRow, StepWritten
from rowcall.domain.stream import StreamRow
from rowcall.store.ends.next_steps import Then
from rowcall.store.new_job import NewJob
from rowcall.store.new_step import StepWrite
from rowcall.store.queries.claims import Ready


class Hello(msgspec.Struct, tag=True):
    """The worker's first message: how to import what it has imported."""

    path: list[str]
    app: str | None
    homes: list[Home]
    lifespan: Home | None = None
    holds: bool = False
    """Whether handlers have dependencies with `scope="worker"`."""

    @property
    def has_lifespan(self) -> bool:
        return self.lifespan is not None or self.holds


class RunAttempt(msgspec.Struct, tag=True):
    """Run this attempt."""

    task: str
    home: Home
    ready: Ready
    worker: str
    claimed_at_ms: int
    memory_limit: int | None
    log_level: int
    lowest_kept: int | None = None
    """The lowest level of lines of `ctx.log` that are kept."""
    has_middleware: bool = False


class Answered(msgspec.Struct, tag=True):
    """The answer to `Asked`."""

    value: object = None
    then: Then | None = None
    steps: list[StepRow] = []
    written: StepWritten | None = None
    values: list[StreamRow] = []
    """Of `complete`: what the handler has appended to streams, and may not be written."""
    calls: list[StepWritten] = []
    failed: Failed | None = None


class ReadStack(msgspec.Struct, tag=True):
    """Where is the handler now?"""


class End(msgspec.Struct, tag=True):
    """Leave the lifespan, and end."""


class StackRead(msgspec.Struct, tag=True):
    """The answer to `ReadStack`."""

    frames: list[StackFrame]


class Prepared(msgspec.Struct, tag=True):
    """The child's first message: all is imported, and the lifespan is entered."""


class NotEntered(msgspec.Struct, tag=True):
    """The lifespan has failed, instead of `Prepared`."""

    lifespan: str
    problem: str


class AboutAttempt(msgspec.Struct, kw_only=True):
    """A message about one attempt. It may come too late, from a process that a handler has left behind."""

    attempt: tuple[int, int] | None = None
    """Job and lease."""


class Begun(AboutAttempt, tag=True):
    """The child has the call: from now on the handler is the cause of its death."""


class Progressed(AboutAttempt, tag=True):
    share: float
    message: str | None
    replays: bool


class LineKept(AboutAttempt, tag=True):
    """A line of `ctx.log`, to be kept with the attempt."""

    level: int
    text: str
    place: int


class Logged(msgspec.Struct, tag=True):
    level: int
    message: str
    fields: dict[str, object]


class Asked(AboutAttempt, tag=True):
    """The handler asks what only the worker knows or writes: `previous`, `blockers`, `continue_with`, `stream`, `used`,
    its steps.

    `complete` announces that the handler completes its job in its own transaction: the worker must know before the
    lease changes.
    """

    what: str
    task: str = ""
    job: NewJob | None = None
    payload: str = ""
    step: StepWrite | None = None
    last_call: int | None = None
    """Of a value for a stream: where the handler is, as `Steps.last_call` says."""
    calls: list[StepWrite] = []


class NotCompleted(AboutAttempt, tag=True):
    """The announced `complete` has failed."""


class Returned(AboutAttempt, tag=True):
    """The handler's result, as JSON."""

    result: str | None
    saw_cancelled: bool


class Unfitting(AboutAttempt, tag=True):
    """Arguments or a result that would fail in every attempt."""

    code: str
    detail: str


class Failed(AboutAttempt, tag=True):
    """The handler's exception, not yet scrubbed or shortened."""

    code: str
    detail: str
    traceback: str
    kinds: list[tuple[str, str]]
    """Module and name of its class and of the base classes."""
    arguments: list[object]
    attributes: dict[str, object]
    control: RaisedControl | None
    is_declared: bool
    """Whether the child knew the codes that the app has for its own errors."""
    out_of_memory: bool
    frames: list[StackFrame] = []


class RaisedControl(msgspec.Struct):
    """How the handler asked the attempt to end: `Retry`, `Snooze`, `Fail` or `Cancel`."""

    kind: str
    delay_seconds: float = 0.0
    code: str = ""
    said: str = ""
    run_at_ms: int | None = None
    hold: str | None = None


ToChild = Hello | RunAttempt | Answered | ReadStack | End
AttemptMessage = Begun | Progressed | LineKept | Asked | NotCompleted | Returned | Unfitting | Failed
ToWorker = Prepared | NotEntered | Logged | StackRead | AttemptMessage

to_child = msgspec.json.Decoder(ToChild)
to_worker = msgspec.json.Decoder(ToWorker)
_encoder = msgspec.json.Encoder()


def line_of(message: ToChild | ToWorker) -> bytes:
    return _encoder.encode(message) + b"\n"
