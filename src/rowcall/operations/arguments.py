"""What several operations are given: a job or its id, a chain, who asks and why, a page."""

from __future__ import annotations

import getpass
import reprlib
import socket

from rowcall.base.text import CODE_LENGTH, storable
from rowcall.declare.failures import Failures
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Chain, Job, Status
from rowcall.store.jobs import inspect


def checked_id(job: object) -> int:
    """Return the id of a job that was given as such, or by its id."""
    if isinstance(job, Job):
        return job.id
    if isinstance(job, Chain):
        raise InvalidOption("job", f"must be a Job or its id, got a Chain: pass one of its steps (chain {job.id})")
    return _checked("job", "a Job or its id", job)


def checked_chain_id(chain: object) -> int:
    """Return the id of a chain that was given as such, by its id, or by one of its jobs."""
    if isinstance(chain, Chain):
        return chain.id
    if isinstance(chain, Job):
        return chain.id if chain.chain_id is None else chain.chain_id
    return _checked("chain", "a Chain or its id", chain)


def _checked(option: str, expected: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise InvalidOption(option, f"must be {expected}, got {reprlib.repr(value)}")
    return value


def checked_actor(actor: str | None) -> str:
    """Return who asks, for the timeline of a job."""
    return current_user() if actor is None else storable(_text("actor", actor), CODE_LENGTH)


def checked_reason(reason: str | None, failures: Failures) -> str | None:
    return None if reason is None else failures.detail(_text("reason", reason))


def checked_limit(limit: object, largest: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= largest:
        raise InvalidOption("limit", f"must be a whole number from 1 to {largest}, got {limit!r}")
    return limit


def checked_status(status: str | None) -> Status | None:
    if status is not None and status not in list(Status):
        raise InvalidOption("status", f"must be one of {', '.join(Status)}, got {status!r}")
    return None if status is None else Status(status)


def checked_error_code(code: object) -> str | None:
    """Return the code, or the beginning of codes with a `*` after it."""
    if code is not None and (not isinstance(code, str) or not 1 <= len(code) <= CODE_LENGTH + 1):
        raise InvalidOption("error_code", f"must look like TIMEOUT:HANDLER or TIMEOUT:*, got {code!r}")
    return code


def id_before(cursor: str | None) -> int | None:
    """Return the id that a page ends before."""
    return None if cursor is None else inspect.id_of_cursor(cursor)


def _text(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidOption(option, f"must be a text, got {value!r}")
    return value


def current_user() -> str:
    """Return the user of this process and its host, as far as the system knows them: `ann@web-1`."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "unknown"
    return f"{name}@{socket.gethostname()}"
