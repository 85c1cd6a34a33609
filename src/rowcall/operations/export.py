"""Read jobs with their attempts and steps: for archives and bug reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from rowcall.domain.job import Attempt, Job
from rowcall.domain.step import RecordedStep
from rowcall.operations import blobs
from rowcall.operations.effects import Read
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.queries.jobs import ATTEMPTS
from rowcall.store.queries.steps import SHOW_STEPS
from rowcall.store.statement import Plan

V = TypeVar("V", bound=msgspec.Struct)

_ALL = 2**31 - 1
_VALUES = ("payload", "result", "question", "expects")
_TEXTS = ("key", "progress_message", "target", "error_detail")
# what Python writes between the frames of chained exceptions
_KEPT_LINE = re.compile(r"  |Traceback |The above exception|During handling|$")
_EXCEPTION = re.compile(r"[\w.]+")


class ExportedJob(NamedTuple):
    """A job with all of its attempts and durable steps."""

    job: Job
    attempts: list[Attempt]
    steps: list[RecordedStep]

    def without_values(self) -> ExportedJob:
        """Return it without what users have put in: with types instead of values."""
        return ExportedJob(
            _without_values(self.job),
            [_without_values(attempt) for attempt in self.attempts],
            [_without_values(step) for step in self.steps],
        )


def exported(queue: Queue, jobs: Sequence[Job]) -> Operation[list[ExportedJob]]:
    """Return the jobs with their attempts and steps. Large payloads and results are read."""
    belongings = yield from Read(_belongings(queue.dialect, jobs), snapshot=True)
    whole = []
    for job, parts in zip(jobs, belongings, strict=True):
        resolved = yield from blobs.resolve(queue, job)
        whole.append(ExportedJob(resolved, *parts))
    return whole


def _belongings(dialect: Dialect, jobs: Sequence[Job]) -> Plan[list[tuple[list[Attempt], list[RecordedStep]]]]:
    belongings = []
    for job in jobs:
        attempts = yield from dialect.ask(ATTEMPTS, job.id, _ALL)
        steps = yield from dialect.ask(SHOW_STEPS, job.id, _ALL)
        belongings.append((attempts[::-1], steps[::-1]))
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
    """Return a traceback without what its exceptions say.

    >>> frames_of("Traceback (most recent call last):\\n  File 'a.py', line 1, in f\\nOSError: no ann@example.com")
    "Traceback (most recent call last):\\n  File 'a.py', line 1, in f\\nOSError"
    """
    lines = []
    for line in traceback.splitlines():
        if _KEPT_LINE.match(line):
            lines.append(line)
        elif name := _EXCEPTION.match(line):
            lines.append(name[0])
    return "\n".join(lines)
