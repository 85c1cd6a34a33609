"""Streams of jobs: the values that handlers append, and where readers are in them."""

from __future__ import annotations

import re

import msgspec

from rowcall.domain.blobs import TOO_LARGE_CODE
from rowcall.domain.errors import InvalidOption, TooLarge
from rowcall.domain.payload import checked_result

MOST_VALUE_BYTES = 64 * 1024
"""A value waits in the memory of the worker until it is written, and of each reader until it is read."""
MOST_VALUES = 100_000
"""Of one job: the longest answers of language models have about as many tokens."""
MOST_STREAM_BYTES = 16 * 1024 * 1024
"""Of all values of one job."""
FIRST_PART = 1

_POSITION = re.compile(r"(\d{1,19})-(\d{1,9})-(\d{1,9})", re.ASCII)


class StreamRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A value of a stream. `number` counts all values of the job; `bytes` is their length, up to this one."""

    job_id: int
    number: int
    part: int
    bytes: int
    name: str
    value: str


class StreamStart(msgspec.Struct, frozen=True):
    """Where an attempt begins: the last number and the length so far, its part, and its last recorded step."""

    number: int = 0
    bytes: int = 0
    part: int = FIRST_PART
    last_step: int = 0


class Position(msgspec.Struct, frozen=True):
    """Where a reader is in a stream: behind the value with that number.

    >>> str(Position(7, part=1, number=42))
    '7-1-42'
    """

    job_id: int
    part: int = FIRST_PART
    number: int = 0

    def __str__(self) -> str:
        return f"{self.job_id}-{self.part}-{self.number}"


def checked_position(job_id: int, after: object) -> Position:
    """Return the position of a reader, or raise `InvalidOption`.

    >>> checked_position(7, "7-1-42").number
    42
    """
    if after is None:
        return Position(job_id)
    numbers = _POSITION.fullmatch(after) if isinstance(after, str) else None
    if numbers is None:
        raise InvalidOption("after", f"must be the position of a reader, such as '{job_id}-1-42', got {after!r}")
    position = Position(*map(int, numbers.groups()))
    if position.job_id != job_id:
        raise InvalidOption("after", f"is a position in a stream of job {position.job_id}, not of job {job_id}")
    return position


def value_text(task: str, value: object) -> str:
    """Return the JSON of a value, or raise `InvalidArguments`: JSON cannot hold it, or it is too large."""
    text = checked_result(task, value, None, "ctx.stream got") or "null"
    if len(text) * 4 > MOST_VALUE_BYTES and (size := len(text.encode())) > MOST_VALUE_BYTES:
        raise too_large(
            task, f"a value of {size:,} bytes, and a stream takes {MOST_VALUE_BYTES:,}; append smaller parts of it"
        )
    return text


def too_large(task: str, problem: str) -> TooLarge:
    error = TooLarge(task, f"ctx.stream got {problem}")
    error.error_code = TOO_LARGE_CODE
    return error
