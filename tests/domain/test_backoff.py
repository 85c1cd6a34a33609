from __future__ import annotations

import http.client
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcall import Backoff, InvalidOption
from rowcall.domain.backoff import (
    DEFAULT_BACKOFF,
    LONGEST_DELAY_SECONDS,
    backoff_from_text,
    backoff_to_text,
    class_names,
)


class Outer:
    class Inner(ValueError): ...


def delays(backoff: Backoff, attempts: int = 5, chance: float = 1.0) -> list[float]:
    return [backoff.delay_seconds(attempt, chance=chance) for attempt in range(1, attempts + 1)]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (DEFAULT_BACKOFF, [30, 60, 90, 120, 150]),
        (Backoff.linear(30), [30, 60, 90, 120, 150]),
        (Backoff.linear(timedelta(minutes=1), cap=150), [60, 120, 150, 150, 150]),
        (Backoff.constant(5), [5, 5, 5, 5, 5]),
        (Backoff.constant(0), [0, 0, 0, 0, 0]),
        (Backoff.exponential(2, jitter=False), [2, 4, 8, 16, 32]),
        (Backoff.exponential(2, cap=10, jitter=False), [2, 4, 8, 10, 10]),
        (Backoff.exponential(2, cap=timedelta(seconds=1), jitter=False), [1, 1, 1, 1, 1]),
    ],
)
def test_delays(backoff: Backoff, expected: list[float]) -> None:
    assert delays(backoff) == expected


def test_full_jitter_is_from_zero_to_the_whole_delay() -> None:
    backoff = Backoff.exponential(2, cap=10)
    assert delays(backoff, chance=0.0) == [0, 0, 0, 0, 0]
    assert delays(backoff, chance=0.5) == [1, 2, 4, 5, 5]
    assert delays(backoff, chance=1.0) == [2, 4, 8, 10, 10]


def test_chance_changes_nothing_without_jitter() -> None:
    for backoff in (Backoff.linear(3), Backoff.constant(3), Backoff.exponential(3, jitter=False)):
        assert delays(backoff, chance=0.0) == delays(backoff, chance=1.0)


@given(st.floats(0, 1e9), st.none() | st.floats(0, 1e9), st.integers(1, 1_000_000), st.floats(0, 1))
def test_no_delay_is_negative_above_its_cap_or_longer_than_a_year(
    base: float, cap: float | None, attempt: int, chance: float
) -> None:
    highest = LONGEST_DELAY_SECONDS if cap is None else min(cap, LONGEST_DELAY_SECONDS)
    for backoff in (Backoff.linear(base, cap=cap), Backoff.exponential(base, cap=cap)):
        assert 0 <= backoff.delay_seconds(attempt, chance=chance) <= highest


@pytest.mark.parametrize(
    "give_up_on",
    [
        ValueError,
        (ValueError,),
        [KeyError, ValueError],
        {ValueError},
        Exception,
        BaseException,
        "ValueError",
        "builtins.ValueError",
        "Inner",
        f"{__name__}.Outer.Inner",
        Outer.Inner,
        ("KeyError", "Inner"),
    ],
)
def test_give_up_on_by_class_base_class_and_name(give_up_on: object) -> None:
    assert Backoff.constant(1, give_up_on=give_up_on).gives_up_on(Outer.Inner())


@pytest.mark.parametrize("give_up_on", [(), KeyError, "KeyError", "Outer", "inner", "other.Inner", SystemExit])
def test_other_errors_are_retried(give_up_on: object) -> None:
    assert not Backoff.constant(1, give_up_on=give_up_on).gives_up_on(Outer.Inner())


def test_classes_with_one_name_in_two_modules_are_distinguished() -> None:
    backoff = Backoff.constant(1, give_up_on=http.client.HTTPException)
    namesake = type("HTTPException", (Exception,), {"__module__": "elsewhere"})
    assert backoff.gives_up_on(http.client.BadStatusLine(""))
    assert not backoff.gives_up_on(namesake())


def test_every_way_takes_give_up_on() -> None:
    makers: list[Callable[..., Backoff]] = [Backoff.constant, Backoff.linear, Backoff.exponential]
    for make in makers:
        assert make(1, give_up_on=ValueError).gives_up_on(ValueError())


def test_only_on_gives_up_on_all_others() -> None:
    makers: list[Callable[..., Backoff]] = [Backoff.constant, Backoff.linear, Backoff.exponential]
    for make in makers:
        backoff = make(1, only_on=(ConnectionError, "KeyError"), give_up_on=ConnectionResetError)
        errors = [ConnectionRefusedError(), KeyError(), ConnectionResetError(), OSError(), KeyboardInterrupt()]
        assert [backoff.gives_up_on(error) for error in errors] == [False, False, True, True, True]


@pytest.mark.parametrize("option", ["give_up_on", "only_on"])
@pytest.mark.parametrize("given", [5, "", None, (int,), [ValueError, 5], ValueError("no")])
def test_only_exceptions_can_be_given_up_on(option: str, given: object) -> None:
    make: Callable[..., Backoff] = Backoff.linear
    with pytest.raises(InvalidOption, match=rf"^{option} must be exception classes or their names"):
        make(30, **{option: given})


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", None, timedelta(seconds=-1)])
def test_a_wrong_pause_is_refused(seconds: object) -> None:
    makers: list[Callable[..., Backoff]] = [Backoff.constant, Backoff.linear, Backoff.exponential]
    for make in makers:
        with pytest.raises(InvalidOption, match=r"^seconds must be "):
            make(seconds)


def test_a_wrong_cap_is_refused() -> None:
    for make in (Backoff.linear, Backoff.exponential):
        with pytest.raises(InvalidOption, match=r"^cap must be "):
            make(1, cap=-1)


@given(
    st.one_of(
        st.builds(Backoff.constant, st.floats(0, 1e9)),
        st.builds(Backoff.linear, st.floats(0, 1e9), cap=st.none() | st.floats(0, 1e9)),
        st.builds(
            Backoff.exponential,
            st.floats(0, 1e9),
            cap=st.none() | st.floats(0, 1e9),
            jitter=st.booleans(),
            give_up_on=st.sampled_from([(), (ValueError,), ("a.b.C", KeyError)]),
            only_on=st.sampled_from([(), (OSError,)]),
        ),
    )
)
def test_a_policy_survives_its_row(backoff: Backoff) -> None:
    assert backoff_from_text(backoff_to_text(backoff)) == backoff


@pytest.mark.parametrize("text", ["", "5", "{}", '{"kind":"cubic","base_seconds":1}', "not json", '{"kind":"linear"}'])
def test_a_row_without_a_policy_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a retry policy"):
        backoff_from_text(text)


def test_an_error_is_known_by_its_own_name_and_its_bases() -> None:
    names = class_names(Outer.Inner)
    assert names[:4] == ["Inner", f"{__name__}.Outer.Inner", "ValueError", "builtins.ValueError"]
    assert "builtins.object" not in names
