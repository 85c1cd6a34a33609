"""Arguments and results as JSON: values of a few types come back as such, as with Celery's JSON."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

TYPE, VALUE = "__type__", "__value__"

# a datetime is also a date, so it comes first
_WRITERS: tuple[tuple[type, str, Callable[..., str]], ...] = (
    (datetime, "datetime", datetime.isoformat),
    (date, "date", date.isoformat),
    (time, "time", time.isoformat),
    (Decimal, "decimal", str),
    (UUID, "uuid", str),
    (bytes, "base64", lambda value: base64.b64encode(value).decode()),
)
_READERS: dict[str, Callable[[str], object]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": UUID,
    "base64": base64.b64decode,
}


def packed(value: object) -> object:
    """Return a value for JSON, with the types of what JSON does not know.

    >>> packed((1, date(2030, 1, 2)))
    [1, {'__type__': 'date', '__value__': '2030-01-02'}]
    """
    if isinstance(value, Mapping):
        return {name: packed(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [packed(inner) for inner in value]
    for kind, name, write in _WRITERS:
        if isinstance(value, kind):
            return {TYPE: name, VALUE: write(value)}
    return value


def unpacked(value: object) -> object:
    """Return what was packed.

    >>> unpacked([{"__type__": "decimal", "__value__": "1.50"}, {"a": 1}])
    [Decimal('1.50'), {'a': 1}]
    """
    if isinstance(value, list):
        return [unpacked(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TYPE, VALUE} and value[TYPE] in _READERS:
        return _READERS[value[TYPE]](value[VALUE])
    return {name: unpacked(inner) for name, inner in value.items()}
