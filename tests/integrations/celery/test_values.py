from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

from rowcall.compat.celery import Celery
from rowcall.integrations.celery.values import packed, unpacked

VALUES = [
    datetime(2030, 1, 2, 3, 4, tzinfo=UTC),
    date(2030, 1, 2),
    time(3, 4),
    {"price": Decimal("1.50")},
    UUID(int=7),
    b"\x00\xff",
    ["text", 1, None],
]


def test_values_come_back_as_what_they_were(app: Celery) -> None:
    assert unpacked(packed(VALUES)) == VALUES

    @app.task
    def same(value: object, *, also: object) -> object:
        return [value, also]

    result = same.delay(VALUES, also=VALUES[0])
    app.jobs.drain(raise_errors=True)
    assert result.get(timeout=1) == [VALUES, VALUES[0]]


def test_what_looks_like_one() -> None:
    for given in ({"__type__": "colour", "__value__": "red"}, {"__type__": "date"}):
        assert unpacked(given) == given
