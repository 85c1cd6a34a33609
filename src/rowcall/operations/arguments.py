"""What several operations are given: a job or its id, a chain, who asks and why, a page."""

from __future__ import annotations

import getpass
import math
import reprlib
import socket
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import TypeGuard, cast

import msgspec

from rowcall.actions import JobFilter
from rowcall.base.text import CODE_LENGTH, storable
from rowcall.base.times import time_of
from rowcall.declare.failures import Failures
from rowcall.domain import checks
from rowcall.domain.batches import BatchInfo, BatchKey
from rowcall.domain.errors import BatchNotFound, ChainNotFound, InvalidOption, JobNotFound, moment_ms, refuse_unknown
from rowcall.domain.job import Chain, Job, Status
from rowcall.domain.payload import checked_result
from rowcall.queue import Queue
from rowcall.store.dialect import HIGHEST, LOWEST, Filter
from rowcall.store.jobs import inspect

KEY_LENGTH = 512
NOT_PRINTABLE = 10**4300  # Python refuses to print numbers with more digits


def checked_id(job: object) -> int:
    """Return the id of a job that was given as such, or by its id."""
    if isinstance(job, Job):
        return job.id
    if isinstance(job, Chain):
        raise InvalidOption("job", f"must be a Job or its id, got a Chain: pass one of its steps (chain {job.id})")
    return _in_range(_whole("job", "a Job or its id", job), JobNotFound)


def checked_chain_id(chain: object) -> int:
    """Return the id of a chain that was given as such, by its id, or by one of its jobs."""
    if isinstance(chain, Chain):
        return chain.id
    if isinstance(chain, Job):
        return chain.id if chain.chain_id is None else chain.chain_id
    return _in_range(_whole("chain", "a Chain or its id", chain), ChainNotFound)


def checked_batch_id(batch: object) -> int:
    """Return the id of a batch that was given as such, or by its id."""
    if isinstance(batch, BatchKey | BatchInfo):
        return batch.id
    return _in_range(_whole("batch", "a Batch or its id", batch), BatchNotFound)


def _whole(option: str, expected: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(option, f"must be {expected}, got {reprlib.repr(value)}")
    if abs(value) >= NOT_PRINTABLE:
        raise InvalidOption(option, f"must be {expected}, got a number of {value.bit_length()} bits")
    return value


def _in_range(number: int, not_found: type[JobNotFound] | type[BatchNotFound]) -> int:
    """Return the id; nothing has one that a database cannot hold."""
    if not 0 < number <= HIGHEST:
        raise not_found(number)
    return number


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
    if code is not None and not _is_text(code, CODE_LENGTH + 1):
        raise InvalidOption("error_code", f"must look like TIMEOUT:HANDLER or TIMEOUT:*, got {code!r}")
    return code


def id_before(cursor: str | None) -> int | None:
    """Return the id that a page ends before."""
    return None if cursor is None else inspect.id_of_cursor(cursor)


_NAMES = ("queue", "type", "tag", "worker")
_TIMES = ("created_after", "created_before", "finished_after", "finished_before")


def checked_filter(filters: Mapping[str, object]) -> Filter:
    filters = {name: value for name, value in filters.items() if value is not None}
    refuse_unknown(filters, set(JobFilter.__annotations__), "filter")
    chosen: dict[str, object] = {name: checks.name(name, filters[name]) for name in _NAMES if name in filters}
    chosen |= {f"{name}_ms": _moment(name, filters[name]) for name in _TIMES if name in filters}
    key = filters.get("key")
    if key is not None and not _is_text(key, KEY_LENGTH):
        raise InvalidOption("key", f"must be a text of 1 to {KEY_LENGTH} characters, got {key!r}")
    if key is not None and "type" not in filters:
        raise InvalidOption("key", "belongs to a task: pass type=… with it")
    return Filter(
        statuses=_statuses(filters.get("status")),
        key=key,
        error_code=checked_error_code(filters.get("error_code")),
        chain_id=checked_chain_id(filters["chain"]) if "chain" in filters else None,
        batch_id=checked_batch_id(filters["batch"]) if "batch" in filters else None,
        parent_id=checked_id(filters["parent"]) if "parent" in filters else None,
        payload=_payload(filters["payload"]) if "payload" in filters else None,
        **chosen,  # type: ignore[arg-type]
    )


def fitting_result(queue: Queue, task: str, result: object) -> str | None:
    """Return the JSON of a result that is given by hand. If the task is declared here, it must fit its annotation."""
    declared = queue.declared.tasks.get(task)
    return checked_result(task, result, None if declared is None else declared.result_decoder)


def refuse_payload(queue: Queue, wanted: Filter) -> None:
    if wanted.payload is not None and queue.declared.options.encrypt is not None:
        raise InvalidOption("payload", "cannot be searched: arguments are encrypted; use a tag or a key")


def _statuses(value: object) -> tuple[Status, ...] | None:
    if value is None:
        return None
    several = [value] if isinstance(value, str) or not isinstance(value, Collection) else list(value)
    for status in several or [value]:
        if status not in list(Status):
            raise InvalidOption("status", f"must be one of {', '.join(Status)}, got {status!r}")
    return tuple(status for status in Status if status in several)


def _moment(option: str, value: object) -> int:
    """Return the first whole millisecond that is not before it."""
    milliseconds = moment_ms(option, value)
    return milliseconds + (time_of(milliseconds) < cast("datetime", value))


def _payload(part: object) -> str:
    if not isinstance(part, Mapping) or not part:
        raise InvalidOption("payload", f"must be an object such as {{'customer': 7}}, got {reprlib.repr(part)}")
    try:
        values = list(_values_of(part))
    except RecursionError:
        raise InvalidOption("payload", "is nested too deeply") from None
    for value in values:
        if not _is_searchable(value):
            expected = "must have only texts, numbers, true, false, null and objects of these"
            raise InvalidOption("payload", f"{expected}, got {reprlib.repr(value)}")
    return msgspec.json.encode(part).decode()


def _is_searchable(value: object) -> bool:
    if isinstance(value, str):
        return _is_storable(value)
    if isinstance(value, int):
        return LOWEST <= value <= HIGHEST
    return value is None or (isinstance(value, float) and math.isfinite(value))


def _values_of(given: Mapping[object, object]) -> Iterator[object]:
    for name, value in given.items():
        if not isinstance(name, str) or not _is_storable(name) or '"' in name or "\\" in name:
            raise InvalidOption("payload", f"must have names without quotes and backslashes, got {reprlib.repr(name)}")
        if isinstance(value, Mapping):
            yield from _values_of(value)
        else:
            yield value


def _is_text(value: object, longest: int) -> TypeGuard[str]:
    return isinstance(value, str) and 1 <= len(value) <= longest and _is_storable(value)


def _is_storable(text: str) -> bool:
    return storable(text, len(text)) == text


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
