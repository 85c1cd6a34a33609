"""Read jobs with all that belongs to them: for archives and bug reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from rowcall.domain.encryption import Kind
from rowcall.domain.job import Attempt, Job
from rowcall.domain.job_log import LogLine
from rowcall.domain.payload import value_from_row
from rowcall.domain.step import RecordedStep
from rowcall.domain.value import Value
from rowcall.operations import blobs
from rowcall.operations.effects import Blocking, Read
from rowcall.operations.job_logs import opened_lines
from rowcall.operations.signals import with_results
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.queries.jobs import ATTEMPTS
from rowcall.store.queries.steps import SHOW_STEPS, SIGNALS, Signal
from rowcall.store.queries.streams import LAST_VALUES, LOG_OF, NamedValue, StoredLines
from rowcall.store.statement import Plan

V = TypeVar("V", bound=msgspec.Struct)

_ALL = 2**31 - 1
_VALUES = ("payload", "result", "question", "expects", "value")
_TEXTS = ("key", "progress_message", "target", "error_detail", "message")
# what Python writes next to the frames of chained and grouped exceptions
_HEAD = re.compile(r"(?:\+ )?(?:Exception Group )?Traceback \(")
_LINK = re.compile(
    r"(?:The above exception was the direct cause of the following exception:"
    r"|During handling of the above exception, another exception occurred:)?$"
)
_SEPARATOR = re.compile(r" *\+-[-+]*(?: [\d.]+ -+)?$")
_MARGIN = re.compile(r" *\| ?| +(?=\+ )|")
_EXCEPTION = re.compile(r"[\w.]+")


class ExportedValue(Value, frozen=True, kw_only=True):
    """A value of a stream of a job."""

    name: str
    part: int
    value: object


class ExportedSignal(Value, frozen=True, kw_only=True):
    """A signal that the handler of a job has not received yet."""

    name: str
    key: str | None
    value: object


class ExportedJob(NamedTuple):
    """A job with all of its attempts and durable steps, its log, its streams, and its signals that wait."""

    job: Job
    attempts: list[Attempt]
    steps: list[RecordedStep]
    log: list[LogLine]
    streams: list[ExportedValue]
    signals: list[ExportedSignal]

    def without_values(self) -> ExportedJob:
        """Return it without what users have put in: with types instead of values."""
        return ExportedJob(
            _without_values(self.job),
            [_without_values(attempt) for attempt in self.attempts],
            [_without_values(step) for step in self.steps],
            [_without_values(line) for line in self.log],
            [_without_values(value) for value in self.streams],
            [_without_values(signal) for signal in self.signals],
        )


Belongings = tuple[list[Attempt], list[RecordedStep], list[StoredLines], list[NamedValue], list[Signal]]
"""The rows of a job. Attempts and steps are decrypted when they are read."""


def exported(queue: Queue, jobs: Sequence[Job]) -> Operation[list[ExportedJob]]:
    """Return the jobs with what belongs to them. Large payloads and results are read."""
    belongings = yield from Read(_belongings(queue.dialect, jobs), snapshot=True)
    whole = []
    for job, rows in zip(jobs, belongings, strict=True):
        resolved = yield from blobs.resolve(queue, job)
        whole.append((yield from Blocking(_opened, queue, resolved, rows)))
    return whole


def _opened(queue: Queue, job: Job, rows: Belongings) -> ExportedJob:
    def opened(text: str | None, kind: Kind) -> object:
        value, cipher = value_from_row(text), queue.backend.cipher
        shown = value if cipher is None else cipher.opened_json(value, job.type, kind)
        return queue.blobs.shown_value(job.id, shown, job.type, kind)

    attempts, steps, log, streams, signals = rows
    return ExportedJob(
        job,
        attempts,
        with_results(queue, job.id, steps),
        opened_lines(queue, job, log),
        [ExportedValue(name=one.name, part=one.part, value=opened(one.value, Kind.STREAM)) for one in streams],
        [ExportedSignal(name=one.name, key=one.key, value=opened(one.value, Kind.STEP)) for one in signals],
    )


def _belongings(dialect: Dialect, jobs: Sequence[Job]) -> Plan[list[Belongings]]:
    belongings: list[Belongings] = []
    for job in jobs:
        attempts = yield from dialect.ask(ATTEMPTS, job.id, _ALL)
        steps = yield from dialect.ask(SHOW_STEPS, job.id, _ALL)
        log = yield from dialect.ask(LOG_OF, job.id)
        streams = yield from dialect.ask(LAST_VALUES, job.id, _ALL, _ALL)
        signals = yield from dialect.ask(SIGNALS, [job.id])
        steps = [msgspec.structs.replace(step, type=job.type) for step in steps[::-1]]
        belongings.append((attempts[::-1], steps, log, streams, signals))
    return belongings


def _without_values(value: V) -> V:
    changes: dict[str, object] = {}
    for name in value.__struct_fields__:
        content = getattr(value, name)
        if content is None:
            continue
        if name in _VALUES:
            changes[name] = shape_of(content)
        elif name in _TEXTS:
            changes[name] = shape_of(str(content))
        elif name == "tags":
            changes[name] = tuple(map(shape_of, content))
        elif name == "traceback":
            changes[name] = frames_of(content)
    return msgspec.structs.replace(value, **changes)


def shape_of(value: object) -> object:
    """Return the type of each value of JSON. The names of arguments stay, and those in them.

    >>> shape_of({"to": "ann@example.com", "items": [1, 2.5, None], "again": True})
    {'to': 'text', 'items': ['number', 'number', None], 'again': True}
    """
    if isinstance(value, dict):
        return {name: shape_of(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [shape_of(part) for part in value]
    if value is None or isinstance(value, bool):
        return value
    return "number" if isinstance(value, int | float) else "text"


def frames_of(traceback: str) -> str:
    """Return a traceback without what its exceptions say, which may be many lines.

    >>> frames_of('Traceback (most recent call last):\\n  File "a.py", line 1, in f\\nOSError: no ann\\n  or bob')
    'Traceback (most recent call last):\\n  File "a.py", line 1, in f\\nOSError'
    """
    lines = []
    in_frames = names_exception = False
    for line in traceback.splitlines():
        margin = _MARGIN.match(line)
        assert margin is not None
        text = line[margin.end() :]
        if _HEAD.match(text) or text.startswith('  File "'):
            in_frames = names_exception = True
        elif _SEPARATOR.match(line):
            in_frames, names_exception = False, True
        elif not (_LINK.match(text) or (in_frames and text.startswith("  "))):
            name = _EXCEPTION.match(text) if names_exception else None
            in_frames = names_exception = False
            if name is None:
                continue
            line = margin[0] + name[0]
        lines.append(line)
    return "\n".join(lines)
