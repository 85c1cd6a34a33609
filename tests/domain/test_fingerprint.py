"""A fingerprint changes with what fits a declaration, and with nothing else."""

from __future__ import annotations

import enum
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcall.domain.batch_payload import ItemArguments
from rowcall.domain.fingerprint import DIGITS
from rowcall.domain.payload import Arguments
from rowcall.store.queries.claims import SEPARATOR, key_of, parts_of, takes

T = TypeVar("T")


def fingerprint(function: Callable[..., object], kind: type[Arguments] = Arguments) -> str:
    found = kind("send", function, skip_first=False).fingerprint
    assert len(found) == DIGITS
    return found


def of(annotation: object, default: object = ...) -> str:
    def send(argument) -> None: ...  # type: ignore[no-untyped-def]

    send.__annotations__["argument"] = annotation
    send.__defaults__ = None if default is ... else (default,)
    return fingerprint(send)


def struct(name: str, *fields: object, **options: bool) -> object:
    return msgspec.defstruct(name, fields, **options)  # type: ignore[arg-type]


def data(annotation: object) -> object:
    @dataclass
    class Order:
        at: object

    Order.__annotations__["at"] = annotation
    return Order


def model(**fields: object) -> object:
    return pydantic.create_model("Order", **fields)  # type: ignore[call-overload]


def members(**values: int) -> object:
    return enum.Enum("Color", values)


class Box(msgspec.Struct, Generic[T]):
    inside: T


class Node(msgspec.Struct):
    value: int
    nodes: list[Node]


DIFFERENT = [
    int,
    str,
    float,
    int | None,
    list[int],
    list[str],
    dict[str, int],
    datetime,
    object,
    Annotated[int, msgspec.Meta(gt=1)],
    Annotated[int, msgspec.Meta(gt=2)],
    Literal["a", "b"],
    Literal["a", "c"],
    struct("Order", ("at", int)),
    struct("Order", ("at", str)),
    struct("Order", ("at", int, 5)),
    struct("Order", ("at", int), ("to", int)),
    struct("Order", ("at", int), forbid_unknown_fields=True),
    struct("Order", ("at", struct("Place", ("x", int)))),
    struct("Order", ("at", struct("Place", ("x", datetime)))),
    data(int),
    data(datetime),
    data(str),
    model(at=(int, ...)),
    model(at=(datetime, ...)),
    model(at=(int, 5)),
    model(at=(object, object())),
    members(RED=1),
    members(RED=2),
    members(RED=1, BLUE=2),
    Box[int],
    Box[str],
    tuple[Box[int], Box[str]],
    tuple[Box[int], Box[int]],
    Node,
]


def test_each_annotation_has_its_own() -> None:
    assert len({of(annotation) for annotation in DIFFERENT}) == len(DIFFERENT)


def test_a_default_counts_and_its_value_does_not() -> None:
    assert of(int, 5) == of(int, 6) != of(int)
    assert of(struct("Order", ("at", int, 5))) == of(struct("Order", ("at", int, 6)))


def test_parameters_count_by_their_names() -> None:
    def send(to: str, copies: int = 1) -> None: ...

    def deliver(to: str, copies: int = 2) -> int:
        return copies

    def renamed(to: str, count: int = 1) -> None: ...

    def more(to: str, copies: int = 1, loud: bool = False) -> None: ...

    assert fingerprint(send) == fingerprint(deliver)
    assert len({fingerprint(function) for function in (send, renamed, more)}) == 3


def test_the_items_of_a_batch() -> None:
    def numbers(items: list[int]) -> None: ...

    def texts(items: list[str]) -> None: ...

    def anything(items: list[dict[str, object]]) -> None: ...

    assert len({fingerprint(function, ItemArguments) for function in (numbers, texts, anything)}) == 3


PROGRAM = """
from dataclasses import dataclass, field
from typing import Literal
from rowcall.domain.payload import Arguments

@dataclass
class Order:
    at: Literal["x", "a", "m"]
    why: object = field(default_factory=lambda: {"b", "a", "c"})

def send(order: Order, tags: set[str] = frozenset({"q", "w", "e"})): ...

print(Arguments("send", send, skip_first=False).fingerprint)
"""


@pytest.mark.slow
def test_it_is_the_same_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


NAMES = st.text(st.sampled_from(["a", ",", SEPARATOR]), min_size=1)
FINGERPRINTS = st.lists(st.text("0123456789abcdef", min_size=DIGITS, max_size=DIGITS), min_size=1)


@given(NAMES, st.none() | FINGERPRINTS)
def test_a_key_has_the_task_and_what_refused_it(task: str, refused: list[str] | None) -> None:
    key = key_of(task, None if refused is None else ",".join(refused))
    assert parts_of(key) == (task, refused or [])


@pytest.mark.parametrize(
    ("tasks", "key", "expected"),
    [
        (None, "send", True),
        (None, key_of("send", "00000001"), True),
        ({}, "send", False),
        ({"send": "00000001"}, "send", True),
        ({"send": "00000001"}, key_of("send", "00000001"), False),
        ({"send": "00000001"}, key_of("send", "00000002,00000001"), False),
        ({"send": "00000001"}, key_of("send", "00000002"), True),
        ({"send": None}, key_of("send", "00000001"), True),
        ({"send": "00000001"}, key_of(key_of("send", "00000002"), None), False),
    ],
)
def test_which_keys_a_worker_takes(tasks: dict[str, str | None] | None, key: str, expected: bool) -> None:
    assert takes(tasks, key) is expected
