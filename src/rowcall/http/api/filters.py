"""Which jobs are meant: the filters of `jobs.list`, in a query or in a body."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

import msgspec

from rowcall.actions import JobFilter
from rowcall.http.endpoint import EndpointInput
from rowcall.http.problems import Problem

_PAIR = re.compile(r'([^\s={"]+)=("(?:[^"\\]|\\.)*"|[^\s"]+)')
_PAIRS = re.compile(rf"\s*(?:{_PAIR.pattern}(?:\s+|$))+")


class Chosen(EndpointInput, frozen=True, kw_only=True):
    """Filters, all of which a job has to match."""

    status: list[str] | None = None
    queue: str | None = None
    type: str | None = None
    tag: str | None = None
    key: str | None = None
    chain: int | None = None
    batch: int | None = None
    parent: int | None = None
    worker: str | None = None
    error_code: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None

    def given(self) -> JobFilter:
        """Return the filters that are given."""
        names = JobFilter.__annotations__.keys() & set(self.__struct_fields__)
        filters = {name: value for name in names if (value := getattr(self, name)) is not None}
        if isinstance(filters.get("payload"), str):
            filters["payload"] = object_of(filters["payload"])
        return filters  # type: ignore[return-value]


class JobsQuery(Chosen, frozen=True, kw_only=True):
    """Filters as query parameters; `payload` has values of arguments: `customer=7`, or a JSON object."""

    payload: str | None = None
    order: Literal["newest", "oldest"] = "newest"
    limit: int = 50
    cursor: str | None = None


class BodyFilter(Chosen, frozen=True, kw_only=True):
    """Filters in a body."""

    payload: dict[str, object] | None = None


def object_of(text: str) -> dict[str, object]:
    """Return the values of arguments that a filter names: as a JSON object, or as `name=value`.

    >>> object_of('{"customer": 7}'), object_of('customer=7 to=ann@example.com zip="0123"')
    ({'customer': 7}, {'customer': 7, 'to': 'ann@example.com', 'zip': '0123'})
    """
    try:
        if _PAIRS.fullmatch(text):
            return {name: _value(value) for name, value in _PAIR.findall(text)}
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        raise Problem(422, "Invalid value", 'payload must be customer=7 or a JSON object: {"customer": 7}') from None


def _value(text: str) -> object:
    try:
        decoded: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return decoded
