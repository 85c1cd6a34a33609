"""What one job of a batch is enqueued with, by the type of the items."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from rowcall.domain.batch_payload import ItemArguments
from rowcall.domain.blobs import BLOB_KEY
from rowcall.domain.errors import InvalidArguments, InvalidOption
from rowcall.domain.payload import PayloadUnfit


@dataclasses.dataclass
class Document:
    number: int
    path: Path = Path("a")
    tags: list[str] = dataclasses.field(default_factory=list)
    made: bool = dataclasses.field(default=True, init=False)


class Typed(TypedDict):
    number: int
    on: NotRequired[date]


class Struct(msgspec.Struct):
    number: int
    body: bytes = b""


class Model(pydantic.BaseModel):
    number: int
    name: str = "x"


def arguments(item: object, *, name: str = "items") -> ItemArguments:
    def handler(items: object) -> None: ...

    handler.__annotations__ = {"items": list[item]}  # type: ignore[valid-type]
    return ItemArguments("index", handler, skip_first=False)


@pytest.mark.parametrize(
    ("item", "given", "text", "back"),
    [
        (Document, {"number": 1}, '{"number":1}', Document(1)),
        (Document, {"number": 1, "path": Path("b")}, '{"number":1,"path":"b"}', Document(1, Path("b"))),
        (Typed, {"number": 1, "on": date(2030, 1, 2)}, '{"number":1,"on":"2030-01-02"}', None),
        (Typed, {"number": 1}, '{"number":1}', {"number": 1}),
        (Struct, {"number": 1, "body": b"\0"}, '{"number":1,"body":"AA=="}', Struct(1, b"\0")),
        (Model, {"number": 1}, '{"number":1}', Model(number=1)),
        (dict, {"a": 1, "b": [2]}, '{"a":1,"b":[2]}', {"a": 1, "b": [2]}),
        (dict[str, int], {"a": 1}, '{"a":1}', {"a": 1}),
        (int, {"item": 5}, '{"item":5}', 5),
        (date, {"item": date(2030, 1, 2)}, '{"item":"2030-01-02"}', date(2030, 1, 2)),
        (Any, {"item": [None]}, '{"item":[null]}', [None]),
    ],
)
def test_arguments_go_there_and_come_back_as_an_item(
    item: object, given: dict[str, object], text: str, back: object
) -> None:
    items = arguments(item)
    assert items.to_json((), given) == text
    assert items.from_json(text) == ([given if back is None else back], {})


@pytest.mark.parametrize(
    ("item", "whole", "text"),
    [
        (Document, Document(1, tags=["x"]), '{"number":1,"path":"a","tags":["x"]}'),
        (Struct, Struct(1), '{"number":1,"body":""}'),
        (Model, Model(number=1), '{"number":1,"name":"x"}'),
        (Typed, {"number": 1}, '{"number":1}'),
        (dict, {"a": 1}, '{"a":1}'),
        (int, 5, '{"item":5}'),
    ],
)
def test_a_whole_item_will_do_too(item: object, whole: object, text: str) -> None:
    items = arguments(item)
    assert items.to_json((whole,), {}) == text
    assert items.from_json(text)[0] == [whole]


@pytest.mark.parametrize(
    ("item", "args", "kwargs", "said"),
    [
        (Document, (), {"number": "one"}, "expected `int`"),
        (Document, (), {}, "missing argument 'number'"),
        (Document, (), {"number": 1, "nonsense": 2}, "unexpected argument 'nonsense'"),
        (Document, (1,), {}, "by name, or one Document"),
        (Document, (Document(1),), {"number": 2}, "by name, or one Document"),
        (Typed, (), {"nonsense": 2, "number": 1}, "unexpected argument 'nonsense'"),
        (Model, (), {"number": "one"}, "number"),
        (Model, (), {"number": 1, "nonsense": 2}, "unexpected argument 'nonsense'"),
        (dict[str, int], (), {"a": "b"}, "expected `int`"),
        (dict, (), {BLOB_KEY: 1}, BLOB_KEY),
        (int, (1, 2), {}, "takes at most 1 positional arguments"),
        (int, (), {"number": 1}, "unexpected argument 'number'"),
        (int, ("one",), {}, "expected `int`"),
    ],
)
def test_wrong_calls_are_refused(item: object, args: tuple[object, ...], kwargs: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        arguments(item).to_json(args, kwargs)
    assert said in str(refused.value)


@pytest.mark.parametrize(("item", "text"), [(Document, '{"number": "x"}'), (Model, "{}"), (dict, "5"), (int, "{}")])
def test_a_stored_payload_that_does_not_match_is_refused(item: object, text: str) -> None:
    with pytest.raises(PayloadUnfit) as unfit:
        arguments(item).from_json(text)
    assert unfit.value.code == "INVALID_INPUT:SCHEMA_MISMATCH"
    with pytest.raises(PayloadUnfit) as unfit:
        arguments(item).from_json("{")
    assert unfit.value.code == "INVALID_INPUT:NOT_JSON"


def no_parameter() -> None: ...


def no_list(items: int) -> None: ...


def two(items: list[int], more: int) -> None: ...


def by_name_only(*, items: list[int]) -> None: ...


def rest(*items: int) -> None: ...


@pytest.mark.parametrize("function", [no_parameter, no_list, two, by_name_only, rest], ids=lambda value: value.__name__)
def test_a_handler_without_a_list_of_items_is_refused(function: Callable[..., object]) -> None:
    with pytest.raises(InvalidOption, match=r"batch needs a function with one parameter, a list of items"):
        ItemArguments("index", function, skip_first=False)


def test_a_sequence_or_a_list_of_anything_will_do() -> None:
    def some(items: Sequence[int]) -> None: ...
    def anything(items: list) -> None: ...  # type: ignore[type-arg]
    def bare(items) -> None: ...  # type: ignore[no-untyped-def]

    for function in (some, anything, bare):
        assert ItemArguments("index", function, skip_first=False).to_json((5,), {}) == '{"item":5}'
