"""How a claim shares its room among queues: pure functions of the plan."""

from __future__ import annotations

import pytest

from rowcall.store.claims.demand import Demand, RoundResult, in_turn
from rowcall.store.claims.round import share_of, wanted_types
from rowcall.store.queries.claims import Work

READY = [("default", "a"), ("default", "b"), ("mail", "a"), ("media", "c")]


def look() -> Work:
    return Work(0, None, None, True, dict.fromkeys(READY))


def test_all_types_of_all_queues_are_wanted_unless_narrowed() -> None:
    everything = wanted_types(Demand(worker="w", slots=1), READY, [])
    assert everything == {"default": ["a", "b"], "mail": ["a"], "media": ["c"]}
    known = wanted_types(Demand(worker="w", slots=1, types={"a": "0123abcd"}), READY, [])
    assert known == {"default": ["a"], "mail": ["a"]}
    served = wanted_types(Demand(worker="w", slots=1, queues={"media": None}), READY, [])
    assert served == {"media": ["c"]}
    assert wanted_types(Demand(worker="w", slots=1, types={}), READY, []) == {}
    assert wanted_types(Demand(worker="w", slots=1), READY, [("queue", "default"), ("task", "c")]) == {"mail": ["a"]}


@pytest.mark.parametrize(
    ("last", "order"), [("", ["a", "b", "c"]), ("a", ["b", "c", "a"]), ("b", ["c", "a", "b"]), ("c", ["a", "b", "c"])]
)
def test_queues_take_turns_in_being_first(last: str, order: list[str]) -> None:
    assert in_turn(["a", "b", "c"], last) == order


def test_no_queues_have_no_turn() -> None:
    assert in_turn([], "a") == []


@pytest.mark.parametrize(("room", "queues_left", "share"), [(10, 1, 10), (10, 2, 5), (10, 3, 4), (1, 3, 1), (0, 3, 0)])
def test_room_is_shared_equally_and_rounded_up(room: int, queues_left: int, share: int) -> None:
    demand = Demand(worker="w", slots=room)
    assert share_of(demand, "default", RoundResult(look()), queues_left) == share


@pytest.mark.parametrize(("limit", "share"), [(None, 5), (3, 3), (7, 5), (0, 0)])
def test_a_queues_own_limit_holds(limit: int | None, share: int) -> None:
    demand = Demand(worker="w", slots=8, buffer=2, queues={"mail": limit, "default": None})
    assert share_of(demand, "mail", RoundResult(look()), 2) == share
