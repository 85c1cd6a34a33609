"""What is stored of an exception: an error code, a short detail, a bounded traceback.

Texts are scrubbed before they are shortened: a scrubber would not recognise half a secret.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

from rowcall.base.text import DETAIL_LENGTH, storable
from rowcall.domain.error_codes import code_of, retried
from rowcall.domain.errors import Cancel, Fail, Retry
from rowcall.domain.outcome import Raised

DEFAULT_TRACEBACK_LIMIT = 8 * 1024

Scrub = Callable[[str], str]


def unchanged(text: str) -> str:
    return text


def raised(
    error: BaseException,
    code: str | None = None,
    *,
    scrub: Scrub = unchanged,
    traceback_limit: int = DEFAULT_TRACEBACK_LIMIT,
) -> Raised:
    """Return the outcome of a handler that raised an exception."""
    described = retried(error)
    return Raised(
        scrubbed(error, scrub),
        code_of(described) if code is None else code,
        detail_of(described, scrub),
        traceback_of(described, scrub, traceback_limit),
    )


def detail_of(error: BaseException, scrub: Scrub = unchanged) -> str:
    try:
        message = str(error)
    except Exception as broken:
        message = f"str(error) raised {type(broken).__name__}"
    return storable(scrub(message or type(error).__name__), DETAIL_LENGTH)


def traceback_of(error: BaseException, scrub: Scrub = unchanged, limit: int = DEFAULT_TRACEBACK_LIMIT) -> str | None:
    """Return at most `limit` characters, from both ends, or None if the limit is 0."""
    if not limit:
        return None
    try:
        lines = traceback.format_exception(error)
    except Exception as broken:
        lines = [f"formatting the traceback raised {type(broken).__name__}"]
    return storable(scrub("".join(lines)), limit)


def scrubbed(error: BaseException, scrub: Scrub) -> BaseException:
    """Return a `Control` without secrets in its text, or any other error as it is, for retry policies."""
    if scrub is unchanged:
        return error
    match error:
        case Fail(code=code, detail=str(detail)) if detail:
            return Fail(code, scrub(_uncut(error.said, detail)))
        case Retry(delay_seconds=delay, run_at_ms=run_at_ms, reason=str(reason)) if reason:
            hidden = Retry(delay, scrub(_uncut(error.said, reason)))
            hidden.run_at_ms, hidden.hold = run_at_ms, error.hold
            return hidden
        case Cancel(reason=str(reason)) if reason:
            return Cancel(scrub(_uncut(error.said, reason)))
        case _:
            return error


def _uncut(said: str, kept: str) -> str:
    """Return the whole text, unless a subclass has replaced the shortened one."""
    return said if storable(said, DETAIL_LENGTH) == kept else kept
