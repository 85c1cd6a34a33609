"""What handlers write with `ctx.log`, as it is kept with the attempt."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from logging import getLevelName
from typing import NamedTuple, Protocol

import msgspec

from rowcall.base.clock import Clock
from rowcall.base.text import storable
from rowcall.base.times import time_of
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


# Structs that the garbage collector does not track: a drain makes one for each line
class LoggedLine(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Seconds since 1970, the level and the message."""

    at: float
    level: int
    message: str


class PlacedLine(LoggedLine, array_like=True, frozen=True, gc=False):
    """A line of an attempt that may repeat an earlier one. `place`: how many steps the handler had called."""

    place: int


IN_A_STEP = 2**31
"""The place of what the function of a step logs: that never repeats anything."""


def place_of(last_call: int | None) -> int:
    return IN_A_STEP if last_call is None else last_call


class LogRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The lines of one attempt, as they are written, or encrypted as one text."""

    job_id: int
    lease: int
    attempt: int
    lines: Sequence[LoggedLine] | str


class KeepsLines(Protocol):
    @property
    def lowest(self) -> int: ...
    def add(self, level: int, text: str) -> None: ...


class LineRules(NamedTuple):
    """What the attempts of a task have in common."""

    most_lines: int
    most_bytes: int
    longest: int
    """How many characters a line may have."""
    lowest: int
    seconds: Callable[[], float]
    scrub: Callable[[str], str] | None

    @classmethod
    def of(cls, options: JobLog, clock: Clock, scrub: Callable[[str], str] | None) -> "LineRules":
        def seconds() -> float:
            now = clock.now()
            return clock.wall() if now is None else now.timestamp()

        read_time = clock.wall if clock.now() is None else seconds
        return cls(
            options.lines,
            options.bytes,
            options.bytes // MOST_BYTES_OF_A_CHARACTER,
            options.lowest,
            read_time,
            scrub,
        )


class AttemptLines(msgspec.Struct, gc=False):
    """The newest lines of one attempt. They may come from several threads."""

    rules: LineRules
    lowest: int
    lines: list[LoggedLine]
    is_new: bool = False
    """Whether a line has come since the lines were last read."""
    place: Callable[[], int] | None = None
    """Returns the place of a line, if the attempt may repeat an earlier one."""

    def add(self, level: int, text: str, place: int | None = None) -> None:
        """Add a line. A drain waits for this: what can be done later is."""
        rules, lines = self.rules, self.lines
        if len(text) > rules.longest:
            text = storable(text, rules.longest)
        if self.place is None:
            lines.append(LoggedLine(rules.seconds(), level, text))
        else:
            lines.append(PlacedLine(rules.seconds(), level, text, self.place() if place is None else place))
        self.is_new = True
        if len(lines) > rules.most_lines:
            del lines[0]

    def read(self, first: int = 0) -> list[LoggedLine]:
        """Return the newest lines that have room, scrubbed; none of before the place `first`."""
        self.is_new = False
        rules, lines = self.rules, self.lines[:]
        if self.place is not None:
            new = (line for line in lines if isinstance(line, PlacedLine) and line.place >= first)
            lines = [LoggedLine(line.at, line.level, line.message) for line in new]
        together = lines[0].message if len(lines) == 1 else "".join([line.message for line in lines])
        if rules.scrub is None and together.isascii() and "\0" not in together and len(together) <= rules.most_bytes:
            return lines
        room, newest = rules.most_bytes, list[LoggedLine]()
        for line in reversed(lines):
            text = line.message if rules.scrub is None else rules.scrub(line.message)
            if not text.isascii() or "\0" in text:
                text = storable(text, rules.longest)
            room -= len(text) if text.isascii() else len(text.encode())
            if room < 0:
                break
            newest.append(line if text is line.message else LoggedLine(line.at, line.level, text))
        return newest[::-1]


def no_lines(rules: LineRules) -> AttemptLines:
    return AttemptLines(rules, rules.lowest, [])


def lines_of(text: str, attempt: int) -> list[LogLine]:
    """Return the lines in the JSON of a row.

    >>> lines_of('[[0,20,"hello"]]', 1)[0].level
    'INFO'
    """
    return [
        LogLine(at=time_of(int(line.at * 1000)), level=getLevelName(line.level), message=line.message, attempt=attempt)
        for line in msgspec.json.decode(text, type=list[LoggedLine])
    ]
