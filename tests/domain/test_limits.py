"""Limits as values: what is refused, and under which key a job counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from rowcall import InvalidOption, Limit, Rowcall
from rowcall.domain.limits import (
    LONGEST_KEY,
    LONGEST_NAME,
    Numbers,
    TaskLimit,
    job_limits_from_text,
    job_limits_to_text,
    key_of,
    name_of,
)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


BAD = {
    "a limit of 0": {"concurrency": 0},
    "a negative concurrency": {"concurrency": -1},
    "half a slot": {"concurrency": 1.5},
    "a truth": {"concurrency": True},
    "a rate of 0": {"rate": 0, "per": 60},
    "a rate without a period": {"rate": 5},
    "a period without a rate": {"per": 5},
    "both, and no period": {"concurrency": 1, "rate": 5},
    "a negative period": {"rate": 5, "per": -1},
    "a negative timedelta": {"rate": 5, "per": timedelta(seconds=-1)},
    "no period at all": {"rate": 5, "per": 0},
    "a period that is a text": {"rate": 5, "per": "60"},
    "nothing": {},
    "by a number": {"concurrency": 1, "by": 5},
    "by a path": {"concurrency": 1, "by": "order.customer"},
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD.keys())
def test_a_wrong_limit_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidOption) as caught:
        Limit("api", **given)  # type: ignore[arg-type]
    assert caught.value.option == "limit"
    assert "'api'" in caught.value.problem


@pytest.mark.parametrize("name", ["", "x" * (LONGEST_NAME + 1), "a\0b", "\ud800", 5, None])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="limit: the name"):
        Limit(name, concurrency=1)


def test_a_limit_cannot_be_changed() -> None:
    limit = Limit("api", rate=5, per=timedelta(minutes=1))
    assert limit.per == 60.0
    with pytest.raises(AttributeError):
        limit.rate = 6  # type: ignore[misc]


@pytest.mark.parametrize("given", [5, "api", [5], {"name": "api"}, object()])
def test_a_wrong_limit_is_refused_everywhere(jobs: Rowcall, given: object) -> None:
    with pytest.raises(InvalidOption, match="limit must be a Limit"):
        jobs.task(limit=given)  # type: ignore[call-overload]
    with pytest.raises(InvalidOption, match="limit must be a Limit"):
        jobs.enqueue("some", limit=given)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="limit must be a Limit"):
        jobs.limit_queue("mail", given)  # type: ignore[arg-type]


def test_one_name_twice_in_a_list_is_refused(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match="limit must have different names"):
        jobs.task(limit=[Limit("a", concurrency=1), Limit("a", concurrency=1)])


@pytest.mark.parametrize("value", [None, 1, 1.5, "1", "", "é", [1, {"b": 1, "a": 2}], {"x": None}, "x" * 1000])
def test_each_value_has_its_own_key(value: object) -> None:
    others = [None, 1, 1.5, "1", "", "é", [1, {"b": 1, "a": 2}], {"x": None}, "x" * 1000, "x" * 1001]
    assert [other for other in others if key_of("a", other) == key_of("a", value)] == [value]
    assert len(key_of("é" * LONGEST_NAME, value)) <= LONGEST_KEY
    assert name_of(key_of("é", value)) == "é"
    assert key_of("a") != key_of("a", value) != key_of("b", value)


def test_however_a_database_writes_a_value_its_key_is_the_same() -> None:
    assert key_of("a", 1.0) == key_of("a", 1)
    assert key_of("a", {"b": 1, "a": 2}) == key_of("a", {"a": 2, "b": 1})


def test_limits_in_a_row_are_read_back_and_nonsense_is_ignored() -> None:
    bound = TaskLimit(Limit("a", concurrency=1, rate=2, per=3, by="who"), missing="me")
    entries = [bound.for_job({"who": 5}), bound.for_job({}), bound.for_job(None)]
    assert [entry.key for entry in entries] == ['["a",5]', '["a","me"]', '["a"]']
    assert job_limits_from_text(job_limits_to_text(entries)) == entries
    assert entries[0].numbers == Numbers(1, 2, 3000)
    long = msgspec.json.encode([["x" * 5000, "a", 1, None, None]]).decode()
    for nonsense in ("", "{", "[1]", '[["a"]]', '[["a","a",0]]', '[["a\\u0000","a",1]]', '[["a","a","1"]]', long):
        assert job_limits_from_text(nonsense) is None


def test_an_unknown_field_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidOption, match=r"^unknown option 'concurency' \(did you mean 'concurrency'\?\)$"):
        Limit("api", concurency=5)  # type: ignore[call-arg]
