"""What a worker and its child processes say to each other: one JSON object a line."""

from __future__ import annotations

import msgspec

from rowcall.declare.isolation import Home
from rowcall.store.dialect import NewJob, Ready
from rowcall.store.jobs.settle import Then


class Hello(msgspec.Struct, tag=True):
    """The worker's first words: how to import what it has imported."""

    path: list[str]
    app: str | None
    homes: list[Home]


class Order(msgspec.Struct, tag=True):
    """Run this."""

    task: str
    home: Home
    ready: Ready
    worker: str
    claimed_at_ms: int
    memory_limit: int | None
    log_level: int


class Answered(msgspec.Struct, tag=True):
    """What came of the child's question."""

    value: object = None
    then: Then | None = None
    failed: Failed | None = None


class Prepared(msgspec.Struct, tag=True):
    """The child's first words: all is imported."""


class OfAttempt(msgspec.Struct, kw_only=True):
    """What is said of one run, which may come too late: from a process that a handler has left behind."""

    attempt: tuple[int, int] | None = None
    """Job and lease."""


class Begun(OfAttempt, tag=True):
    """The child has the order: from here on its death is the handler's."""


class Progressed(OfAttempt, tag=True):
    share: float
    message: str | None


class Logged(msgspec.Struct, tag=True):
    level: int
    message: str
    fields: dict[str, object]


class Asked(OfAttempt, tag=True):
    """A question of the handler's about what only the worker knows: `previous`, `blockers`, or `continue_with`.

    `complete` says that the handler is about to complete its job in a transaction of its own: the worker knows before
    the lease moves.
    """

    what: str
    task: str = ""
    job: NewJob | None = None
    payload: str = ""


class NotCompleted(OfAttempt, tag=True):
    """What was announced by `complete` has failed."""


class Returned(OfAttempt, tag=True):
    """The handler's result, as JSON."""

    result: str | None
    saw_cancelled: bool


class Unfitting(OfAttempt, tag=True):
    """Arguments or a result that no further attempt could mend."""

    code: str
    detail: str


class Failed(OfAttempt, tag=True):
    """The handler's exception, told: nothing is scrubbed or cut yet."""

    code: str
    detail: str
    traceback: str
    kinds: list[tuple[str, str]]
    """Module and name of its class and of those above it."""
    arguments: list[object]
    attributes: dict[str, object]
    control: Control | None
    is_declared: bool
    """Whether the child knew of codes that the app gives to errors of its own."""
    out_of_memory: bool


class Control(msgspec.Struct):
    """How the handler wants the attempt to end: `Retry`, `Snooze`, `Fail` or `Cancel`, and what it said."""

    kind: str
    delay_seconds: float = 0.0
    code: str = ""
    said: str = ""


ToChild = Hello | Order | Answered
AboutAttempt = Begun | Progressed | Asked | NotCompleted | Returned | Unfitting | Failed
ToWorker = Prepared | Logged | AboutAttempt

to_child = msgspec.json.Decoder(ToChild)
to_worker = msgspec.json.Decoder(ToWorker)
_encoder = msgspec.json.Encoder()


def line_of(message: ToChild | ToWorker) -> bytes:
    return _encoder.encode(message) + b"\n"
