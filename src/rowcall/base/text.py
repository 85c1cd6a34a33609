"""Texts that every database accepts, shortened and printable."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable
from typing import TypeVar

import msgspec

T = TypeVar("T")
D = TypeVar("D")

CODE_LENGTH = 100
DETAIL_LENGTH = 500
_MARK = " … "
DAY_SECONDS = 86_400
_YEAR_SECONDS = 365.25 * DAY_SECONDS
_UNITS = ((DAY_SECONDS, "d"), (3600, "h"), (60, "min"), (1, "s"))
_NAMED_UNITS = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), DAY_SECONDS),
    **dict.fromkeys(("w", "week", "weeks"), 7 * DAY_SECONDS),
}
_TYPED_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_MANY = 10  # of a unit: the next one no longer matters
_MOST_DIGITS = 100  # Python refuses to read more than 4,300
NOTHING = "-"
# terminal controls, line ends and changes of text direction
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_CODE = re.compile(r"[\w.-]+(:[\w.-]+)*")


def storable(text: str, length: int) -> str:
    """Return a text without NUL and lone surrogates, shortened in the middle to `length` characters.

    >>> storable("a\\0b", 10), storable("0123456789", 7)
    ('a\ufffdb', '01 … 89')
    """
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if len(text) <= length:
        return text
    head = (length - len(_MARK)) // 2
    return text[:head] + _MARK + text[len(text) - (length - len(_MARK) - head) :]


def printable(text: str) -> str:
    """Escape control characters, except for tabs and line breaks.

    >>> printable("red \\x1b[31m")
    'red \\\\x1b[31m'
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """Escape control characters and line breaks.

    >>> one_line("first\\nsecond")
    'first\\\\nsecond'
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def whole_number(text: str) -> int | None:
    """Return the number that a text of digits means, or None. An id has at most 19 digits.

    >>> whole_number("42"), whole_number("4²"), whole_number("9" * 5000)
    (42, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name, or an empty text.

    >>> did_you_mean("mial", ["mail", "slow"]), did_you_mean("x", ["mail"])
    (" (did you mean 'mail'?)", '')
    """
    close = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def decoded(decoder: msgspec.json.Decoder[T], text: str, otherwise: D) -> T | D:
    """Return the value of a JSON column, or `otherwise` if it cannot be read.

    Plain SQL can write anything there: text that is not JSON, or nested too deeply for Python (`RecursionError`).
    """
    try:
        return decoder.decode(text)
    except Exception:
        return otherwise


def duration(seconds: float | None) -> str:
    """Return a duration or an age for people: the one way to write it. Two units, where one would be too coarse.

    >>> [duration(seconds) for seconds in (0, 0.0123, 1.25, 42.4, 192, 300, 7500, 200_000, 30 * 86_400, None)]
    ['<1 ms', '12 ms', '1.2 s', '42 s', '3 min 12 s', '5 min', '2 h 5 min', '2 d 8 h', '30 d', '-']
    """
    if seconds is None:
        return NOTHING
    if seconds <= 0.0005:
        return "<1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.5:
        return f"{f'{seconds:.1f}'.removesuffix('.0') if seconds < 9.95 else f'{seconds:.0f}'} s"
    if seconds >= 2 * _YEAR_SECONDS:
        return f"{seconds / _YEAR_SECONDS:,.0f} years"
    for (unit, name), (part, smaller) in itertools.pairwise(_UNITS):
        if seconds >= unit - part / 2:
            parts = round(seconds / part)
            count, left = divmod(parts, unit // part)
            if count >= _MANY:
                return f"{round(seconds / unit)} {name}"
            return f"{count} {name} {left} {smaller}" if left else f"{count} {name}"
    raise AssertionError(seconds)


def seconds_from_text(text: str) -> float | None:
    """Return the seconds of a duration that a person wrote, or None if it is not one.

    >>> [seconds_from_text(text) for text in ("90", "5m", "1.5h", "1 day", "2 weeks", "soon")]
    [90.0, 300.0, 5400.0, 86400.0, 1209600.0, None]
    """
    found = _TYPED_DURATION.fullmatch(text.strip())
    return None if found is None or found[2] not in _NAMED_UNITS else float(found[1]) * _NAMED_UNITS[found[2]]


def code_problem(code: object) -> str | None:
    """Return what is wrong with an error code, or None.

    >>> code_problem("PAYMENT:DECLINED")
    """
    if isinstance(code, str) and len(code) <= CODE_LENGTH and _CODE.fullmatch(code):
        return None
    return (
        f'must look like "TIMEOUT:UPSTREAM_API": at most {CODE_LENGTH} characters, words of letters,'
        f" digits, _ . and -, joined by colons; got {code!r}"
    )
