from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rowcall.base.text import DETAIL_LENGTH, storable
from rowcall.domain.errors import Cancel, Fail, Retry
from rowcall.domain.failure import DEFAULT_TRACEBACK_LIMIT, detail_of, raised, traceback_of
from rowcall.domain.outcome import AttemptBudget, decide


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def error_with_traceback(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_a_detail_is_the_message_or_else_the_class() -> None:
    assert detail_of(ValueError("too small")) == "too small"
    assert detail_of(ValueError()) == "ValueError"


def test_an_error_whose_str_raises_is_still_described() -> None:
    outcome = raised(error_with_traceback(Speechless()))
    assert outcome.detail == "str(error) raised RuntimeError"
    assert "Speechless" in (outcome.traceback or "")


def test_a_traceback_names_the_line() -> None:
    assert "error_with_traceback" in (traceback_of(error_with_traceback(ValueError("x"))) or "")


def test_a_long_detail_keeps_both_ends() -> None:
    detail = detail_of(ValueError("begin" + "x" * 10_000 + "end"))
    assert len(detail) == DETAIL_LENGTH
    assert detail.startswith("begin")
    assert detail.endswith("end")
    assert " … " in detail


def test_a_long_traceback_is_bounded_and_keeps_its_last_line() -> None:
    traceback = traceback_of(error_with_traceback(ValueError("x" * 20_000 + "end")))
    assert traceback is not None
    assert len(traceback) == DEFAULT_TRACEBACK_LIMIT
    assert traceback.startswith("Traceback")
    assert traceback.endswith("end\n")


@given(st.text(st.characters(codec=None, exclude_categories=())), st.integers(10, 200))
def test_a_stored_text_fits_every_database(text: str, length: int) -> None:
    stored = storable(text, length)
    stored.encode()
    assert "\0" not in stored
    assert len(stored) <= length


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50))
def test_a_text_that_fits_is_not_changed(text: str) -> None:
    assert storable(text, 50) == text


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=2000))
def test_reasons_of_controls_have_the_same_bounds(text: str) -> None:
    for said in (Fail("A:B", text).detail, Cancel(text).reason, Retry(1, text).reason):
        assert len(said) <= DETAIL_LENGTH
        assert "\0" not in said
        said.encode()


@given(st.integers(0, 400), st.integers(0, 400))
def test_no_part_of_a_secret_remains_wherever_a_text_is_cut(before: int, after: int) -> None:
    error = error_with_traceback(ValueError("x" * before + "begin-secret-end" + "y" * after))
    kept = traceback_of(error, lambda text: text.replace("begin-secret-end", "*"), 100)
    assert kept is not None
    assert len(kept) == 100
    assert not any(part in kept for part in ("begi", "secr", "-end"))


def test_a_retry_from_an_error_has_what_the_error_has() -> None:
    for reason, detail in (("", "Expecting"), ("busy", "busy")):
        retry = Retry(reason=reason, run_at=datetime(2026, 1, 1, tzinfo=UTC))
        try:
            json.loads("")
        except ValueError as error:
            retry.__cause__ = error
        found = raised(retry, scrub=str.upper)
        kept = decide(AttemptBudget(1, 5), found)
        assert (found.code, kept.error_code) == ("INVALID_INPUT:NOT_JSON",) * 2
        assert (kept.error_detail or "").startswith(detail.upper())
        assert "JSONDECODEERROR: EXPECTING" in (kept.traceback or "")
        assert kept.run_at_ms == 1_767_225_600_000
    assert raised(Retry(5)).code == "RETRY:REQUESTED"
