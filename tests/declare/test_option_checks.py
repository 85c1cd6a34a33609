"""Checks of options that tests/declare/test_options.py does not reach."""

from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.declare import option_checks as check
from rowcall.store.new_job import Blocker


@pytest.mark.parametrize(
    ("size", "number"),
    [("512MB", 512 * 1024**2), ("64 MiB", 64 * 1024**2), ("1.5g", 1536 * 1024**2), (2**30, 2**30), ("1T", 2**40)],
)
def test_a_memory_limit_is_bytes_or_a_text(size: object, number: int) -> None:
    assert check.memory_limit("memory_limit", size) == number


@pytest.mark.parametrize("size", [1024, "1MB", "much", "", -1, 1.5e9, True])
def test_another_memory_limit_is_refused(size: object) -> None:
    with pytest.raises(InvalidOption, match=r"memory_limit must be a size such as '512MB' .*, at least 64MB, got "):
        check.memory_limit("memory_limit", size)


def test_a_key_has_a_largest_number_of_bytes() -> None:
    assert check.key("key", "ä" * 512) == "ä" * 512
    with pytest.raises(InvalidOption, match="key must have at most 1800 bytes, got 2048"):
        check.key("key", "\N{PILE OF POO}" * 512)


def test_aliases_are_names_that_differ() -> None:
    assert check.aliases("aliases", ["a", "b"]) == ("a", "b")
    with pytest.raises(InvalidOption, match=r"aliases must differ from each other, got \['a', 'a'\]"):
        check.aliases("aliases", ["a", "a"])
    with pytest.raises(InvalidOption, match="aliases: each must have 1 to 200 characters, got 0"):
        check.aliases("aliases", [""])


def test_a_blocker_is_listed_once() -> None:
    assert [awaited.blocker for awaited in check.after("after", [3, 1, 3])] == [Blocker(3), Blocker(1)]
