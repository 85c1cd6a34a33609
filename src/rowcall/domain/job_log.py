"""What handlers write with `ctx.log`, as it is kept with the attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from logging import getLevelName
from typing import NamedTuple, Protocol

import msgspec

from rowcall.base.clock import Clock
from rowcall.base.text import storable
from rowcall.base.times import milliseconds_of, time_of
from rowcall.domain import checks
from rowcall.domain.errors import InvalidOption
from rowcall.domain.value import OptionsMeta, Value

MOST_BYTES_OF_A_CHARACTER = 4
MOST_LINES, LEAST_BYTES, MOST_BYTES = 10_000, 256, 1024 * 1024


class JobLog(Value, frozen=True, kw_only=True, metaclass=OptionsMeta):
    """How much is kept of what handlers log: `Rowcall(job_log=JobLog(lines=200, bytes=32_768, level="INFO"))`.

    Options:
        lines: how many lines are kept of each attempt, the newest ones; default 200.
        bytes: how many bytes these lines may have together; default 32,768.
        level: the lowest level that is kept, whatever the logger is set to; default `"INFO"`.
        everything: keep all records that reach the root logger while a handler runs, not only those of `ctx.log`.
    """

    lines: int = 200
    bytes: int = 32_768
    level: str = "INFO"
    everything: bool = False

    def __post_init__(self) -> None:
        checks.whole(1, MOST_LINES)("lines", self.lines)
        checks.whole(LEAST_BYTES, MOST_BYTES)("bytes", self.bytes)
        if self.level not in logging.getLevelNamesMapping():
            known = ", ".join(logging.getLevelNamesMapping())
            raise InvalidOption("level", f"must be one of {known}, got {self.level!r}")
        if not isinstance(self.everything, bool):
            raise InvalidOption("everything", f"must be true or false, got {self.everything!r}")

    @property
    def lowest(self) -> int:
        return logging.getLevelNamesMapping()[self.level]


class LogLine(Value, frozen=True, kw_only=True):
    """A line of the log of a job. `message` ends with the traceback, if there was one."""

    at: datetime
    level: str
    message: str
    attempt: int


Line = tuple[int, str, str]
"""Milliseconds since 1970, level and message."""


class LogRow(NamedTuple):
    """The lines of one attempt, as they are written, or encrypted as one text."""

    job_id: int
    lease: int
    attempt: int
    lines: Sequence[Line] | str


class KeepsLines(Protocol):
    @property
    def lowest(self) -> int: ...
    def add(self, level: int, text: str) -> None: ...


class LineRules(NamedTuple):
    """What the attempts of a task have in common."""

    most_lines: int
    most_bytes: int
    lowest: int
    wall_ms: Callable[[], int]
    scrub: Callable[[str], str] | None

    @classmethod
    def of(cls, options: JobLog, clock: Clock, scrub: Callable[[str], str] | None) -> LineRules:
        def wall_ms() -> int:
            now = clock.now()
            return int(clock.wall() * 1000) if now is None else milliseconds_of(now)

        return cls(options.lines, options.bytes, options.lowest, wall_ms, scrub)


class AttemptLines:
    """The newest lines of one attempt. Lines may come from several threads: one that comes while the oldest are dropped
    is kept, too.
    """

    __slots__ = ("_bytes", "_lines", "_rules", "is_new", "lowest")

    def __init__(self, rules: LineRules) -> None:
        self.lowest = rules.lowest
        self.is_new = False
        """Whether a line has come since the lines were last read."""
        self._rules = rules
        self._lines: list[Line] = []
        self._bytes = 0

    def add(self, level: int, text: str) -> None:
        rules = self._rules
        if rules.scrub is not None:
            text = rules.scrub(text)
        if len(text) * MOST_BYTES_OF_A_CHARACTER > rules.most_bytes or "\0" in text or not text.isascii():
            text = storable(text, rules.most_bytes // MOST_BYTES_OF_A_CHARACTER)
        lines = self._lines
        lines.append((rules.wall_ms(), getLevelName(level), text))
        self._bytes += size_of(text)
        self.is_new = True
        while len(lines) > rules.most_lines or self._bytes > rules.most_bytes:
            self._bytes -= size_of(lines.pop(0)[2])

    def read(self) -> list[Line]:
        self.is_new = False
        return list(self._lines)


def lines_of(text: str, attempt: int) -> list[LogLine]:
    """Return the lines in the JSON of a row.

    >>> lines_of('[[0,"INFO","hello"]]', 1)[0].message
    'hello'
    """
    decoded = msgspec.json.decode(text, type=list[Line])
    return [LogLine(at=time_of(ms), level=level, message=message, attempt=attempt) for ms, level, message in decoded]


def size_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
