"""Every kind of argument that the documentation names comes back as what its annotation says."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union
from uuid import UUID

import msgspec
import pydantic
import pytest

from rowcall.domain.payload import Arguments


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclasses.dataclass
class Address:
    street: str
    zip_code: int = 0


@dataclasses.dataclass(frozen=True)
class Customer:
    name: str
    address: Address
    since: datetime | None = None


class Point(NamedTuple):
    x: int
    y: int = 0


class Settings(TypedDict, total=False):
    colour: Colour
    width: int


class Order(msgspec.Struct):
    id: UUID
    total: Decimal


class Item(pydantic.BaseModel):
    name: str
    price: Decimal
    when: datetime | None = None


UTC_NOON = datetime(2030, 1, 1, 12, 30, 15, 250_000, tzinfo=UTC)
AN_ID = UUID("12345678-1234-5678-1234-567812345678")


def takes(annotation: object) -> Callable[..., None]:
    def handler(value: object) -> None: ...

    handler.__annotations__ = {"value": annotation, "return": None}
    return handler


def round_trip(annotation: object, value: object) -> object:
    arguments = Arguments("task", takes(annotation), skip_first=False)
    positional, named = arguments.from_json(arguments.to_json((value,), {}))
    (again,) = (*positional, *named.values())
    return again


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "ä€😀"),
        (str, ""),
        (int, 7),
        (int, -(2**63)),
        (int, 10**30),
        (float, 0.1),
        (bool, True),
        (type(None), None),
        (list[int], [1, 2]),
        (dict[str, int], {"a": 1}),
        (dict[int, str], {1: "a"}),
        (dict[str, object], {"a": [1, None, "x"]}),
        (set[int], {1, 2}),
        (frozenset[str], frozenset({"a"})),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2, 3)),
        (Any, {"a": [1, 2.5, None, True]}),
        (object, {"a": [1]}),
        (bytes, b"\xff\x00"),
        (datetime, UTC_NOON),
        (date, date(2030, 1, 1)),
        (time, time(12, 30)),
        (timedelta, timedelta(days=1, milliseconds=5)),
        (UUID, AN_ID),
        (Decimal, Decimal("10.10")),
        (Decimal, Decimal("1E+30")),
        (Colour, Colour.BLUE),
        (Size, Size.LARGE),
        (list[Colour], [Colour.RED]),
        (Literal["a", "b"], "a"),
        (Path, Path("/srv/file.txt")),
        (PurePosixPath, PurePosixPath("a/b")),
        (list[Path], [Path("a"), Path("b")]),
        (Address, Address("Main", 7)),
        (Customer, Customer("Ann", Address("Main"), UTC_NOON)),
        (dict[str, Customer], {"a": Customer("Ann", Address("Main"))}),
        (Point, Point(1, 2)),
        (Settings, {"colour": Colour.RED, "width": 3}),
        (Order, Order(AN_ID, Decimal("9.99"))),
        (list[Order], [Order(AN_ID, Decimal(1))]),
        (Item, Item(name="a", price=Decimal("9.90"), when=UTC_NOON)),
        (list[Item], [Item(name="a", price=Decimal(1)), Item(name="b", price=Decimal(2))]),
        (dict[str, Item], {"a": Item(name="a", price=Decimal(1))}),
        (Optional[Item], Item(name="a", price=Decimal(1))),  # noqa: UP045 (the older spelling is used by many)
        (Item | None, None),
        (Path | None, Path("a")),
        (Path | None, None),
        (int | str, "7"),
        (int | str, 7),
        (Union[int, list[int], None], [7]),  # noqa: UP007
        (Annotated[int, msgspec.Meta(gt=0)], 7),
    ],
    ids=str,
)
def test_round_trip(annotation: object, value: object) -> None:
    again = round_trip(annotation, value)
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("annotation", "given", "expected"),
    [
        (Path, "/srv/file.txt", Path("/srv/file.txt")),
        (UUID, str(AN_ID), AN_ID),
        (datetime, "2030-01-01T12:30:15.25Z", UTC_NOON),
        (Decimal, "10.10", Decimal("10.10")),
        (Colour, "blue", Colour.BLUE),
        (Address, {"street": "Main"}, Address("Main")),
        (Item, {"name": "a", "price": "1.5"}, Item(name="a", price=Decimal("1.5"))),
        (Order, {"id": str(AN_ID), "total": "1"}, Order(AN_ID, Decimal(1))),
        (float, 1, 1.0),
        (tuple[int, ...], [1, 2], (1, 2)),
    ],
    ids=str,
)
def test_a_value_whose_json_fits_is_accepted(annotation: object, given: object, expected: object) -> None:
    again = round_trip(annotation, given)
    assert again == expected
    assert type(again) is type(expected)


def test_a_datetime_keeps_its_moment_whatever_its_zone() -> None:
    elsewhere = UTC_NOON.astimezone()
    assert round_trip(datetime, elsewhere) == UTC_NOON
