"""Texts: shortened, printable, and hints for names that are misspelled."""

from __future__ import annotations

import msgspec
import pytest

from rowcall.base.text import (
    CODE_LENGTH,
    code_problem,
    decoded,
    did_you_mean,
    duration,
    one_line,
    printable,
    seconds_from_text,
    storable,
)


def test_a_long_text_keeps_both_ends() -> None:
    assert storable("a" * 50 + "b" * 50, 20) == "a" * 8 + " … " + "b" * 9
    assert len(storable("x" * 1000, 500)) == 500


@pytest.mark.parametrize(("text", "stored"), [("a\0b", "a\ufffdb"), ("\ud800", "?"), ("ä\n", "ä\n")])
def test_what_a_database_refuses_is_replaced(text: str, stored: str) -> None:
    assert storable(text, 100) == stored


def test_control_characters_are_escaped() -> None:
    assert printable("\x1b[31m\u202e\ttab\n") == "\\x1b[31m\\u202e\ttab\n"
    assert one_line("a\tb\nc\x85") == "a\\tb\\nc\\x85"


def test_a_hint_names_the_closest_name() -> None:
    assert did_you_mean("prority", ["priority", "delay"]) == " (did you mean 'priority'?)"
    assert did_you_mean("x", []) == ""


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_not_json_is_replaced(text: str) -> None:
    assert decoded(msgspec.json.Decoder(list[int]), text, None) is None


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((-1, "<1 ms"), (0.0004, "<1 ms"), (0.0006, "1 ms"), (0.9994, "999 ms"), (0.9996, "1 s"), (9.94, "9.9 s")),
        *((9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min"), (90, "1 min 30 s"), (599.4, "9 min 59 s")),
        *((599.6, "10 min"), (3569, "59 min"), (3571, "1 h"), (5400, "1 h 30 min"), (35_999, "10 h")),
        *((84_599, "23 h"), (84_601, "1 d"), (129_600, "1 d 12 h"), (86_400 * 700, "700 d"), (10**9, "32 years")),
    ],
)
def test_a_duration_never_shows_sixty_of_a_unit(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize("code", ["OOPS", "A:B", "A:B:C", "HTTP:404", "ä.b-c:D_1", "X" * CODE_LENGTH])
def test_words_joined_by_colons_are_a_code(code: str) -> None:
    assert code_problem(code) is None


@pytest.mark.parametrize("code", ["", ":", "A:", "A B", "A::B", "X" * (CODE_LENGTH + 1), 5, None])
def test_anything_else_is_refused_with_an_example(code: object) -> None:
    assert str(code_problem(code)).startswith('must look like "TIMEOUT:UPSTREAM_API"')


def test_a_duration_with_many_spaces_is_read_once() -> None:
    """A search that divides the spaces in every way takes hours for this many."""
    spaces = " " * 1_000_000
    assert seconds_from_text(f"{spaces}5{spaces}m{spaces}") == 300
    assert seconds_from_text(f"5{spaces}!") is None
