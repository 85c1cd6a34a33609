"""Texts: shortened, printable, and hints for names that are misspelled."""

from __future__ import annotations

import msgspec
import pytest

from rowcall.base.text import CODE_LENGTH, code_problem, decoded, did_you_mean, one_line, printable, span, storable


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
    [(0.0004, "0 ms"), (0.5, "500 ms"), (119, "119 s"), (120, "2 min"), (86_400, "24 h"), (10**9, "32 years")],
)
def test_a_span_has_one_unit(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


@pytest.mark.parametrize("code", ["OOPS", "A:B", "A:B:C", "HTTP:404", "ä.b-c:D_1", "X" * CODE_LENGTH])
def test_words_joined_by_colons_are_a_code(code: str) -> None:
    assert code_problem(code) is None


@pytest.mark.parametrize("code", ["", ":", "A:", "A B", "A::B", "X" * (CODE_LENGTH + 1), 5, None])
def test_anything_else_is_refused_with_an_example(code: object) -> None:
    assert str(code_problem(code)).startswith('must look like "TIMEOUT:UPSTREAM_API"')
