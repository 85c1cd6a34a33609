"""Texts that every database accepts, shortened and printable."""

from __future__ import annotations

import difflib
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


def span(seconds: float) -> str:
    """
    >>> [span(seconds) for seconds in (0.0123, 59, 3600, 200_000)]
    ['12 ms', '59 s', '60 min', '2 d']
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * DAY_SECONDS:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / DAY_SECONDS:.0f} d" if seconds < 2 * _YEAR_SECONDS else f"{seconds / _YEAR_SECONDS:.0f} years"


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
