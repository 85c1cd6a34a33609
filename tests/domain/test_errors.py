from __future__ import annotations

import ast
import inspect
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rowcall
from rowcall.domain import errors
from rowcall.domain.errors import (
    VERBS,
    Cancel,
    Control,
    DuplicateJob,
    DuplicateTask,
    Fail,
    InvalidArguments,
    InvalidOption,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LeaseLost,
    Retry,
    RowcallError,
    SchemaMismatch,
    Snooze,
    StillNeeded,
    StoreUnavailable,
    Suspend,
    UnknownEvent,
    UnknownTask,
    WrongState,
    seconds_of,
)


def error_classes() -> list[type[BaseException]]:
    return [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, BaseException)]


def test_every_error_stands_in_the_tree_on_top_of_the_module() -> None:
    drawn = errors.__doc__ or ""
    assert [kind.__name__ for kind in error_classes() if kind.__name__ not in drawn] == []


def test_every_error_is_of_one_root() -> None:
    assert [kind for kind in error_classes() if not issubclass(kind, RowcallError | Control | Suspend)] == []


def test_every_pinned_error_is_public() -> None:
    pinned = (
        "InvalidArguments InvalidOption UnknownTask DuplicateTask DuplicateJob JobNotFound JobFailed JobCancelled"
        " LeaseLost WrongState SchemaMismatch StoreUnavailable RowcallError Retry Snooze Fail Cancel"
    )
    assert [name for name in pinned.split() if not hasattr(rowcall, name)] == []


def test_errors_have_the_usual_base_classes_of_python() -> None:
    assert issubclass(InvalidArguments, TypeError)
    assert issubclass(InvalidOption, ValueError)
    assert issubclass(UnknownTask, LookupError)
    assert issubclass(JobNotFound, LookupError)
    assert issubclass(DuplicateTask, ValueError)


@pytest.mark.parametrize(
    ("error", "fields", "said"),
    [
        (InvalidArguments("send", "no"), {"task": "send", "problem": "no"}, "send: no"),
        (InvalidOption("delay", "no"), {"option": "delay", "problem": "no"}, "delay: no"),
        (UnknownTask("a", ["b", "c"]), {"task": "a", "known": ["b", "c"]}, "declared here: b, c"),
        (UnknownTask("a", []), {"task": "a", "known": []}, "declared here: none"),
        (UnknownEvent("a.b", ["a.c"]), {"event": "a.b", "known": ["a.c"]}, "did you mean 'a.c'?"),
        (DuplicateTask("a"), {"task": "a"}, "task(name=…)"),
        (DuplicateJob("a", "k", 7), {"task": "a", "key": "k", "job_id": 7}, "job 7"),
        (JobNotFound(7), {"job_id": 7}, "job 7 does not exist"),
        (JobFailed(7, "A:B", "why"), {"job_id": 7, "error_code": "A:B", "error_detail": "why"}, "with A:B: why"),
        (JobFailed(7, "A:B", None), {"error_detail": None}, "job 7 failed with A:B"),
        (JobCancelled(7, "why"), {"job_id": 7, "reason": "why"}, "cancelled: why"),
        (JobCancelled(7, None), {"reason": None}, "job 7 was cancelled"),
        (LeaseLost(7), {"job_id": 7}, "job 7 is no longer yours"),
        (
            WrongState(7, "running", "cancel", ["pending", "blocked"]),
            {"job_id": 7, "status": "running", "move": "cancel", "allowed": ["pending", "blocked"]},
            "job 7 is running: wait for it to end, or cancel it first",
        ),
        (StillNeeded(7, [8]), {"needed_by": [8]}, "cannot delete job 7: 1 other job waits for it (8)"),
        (StillNeeded(7, [8, 9]), {"needed_by": [8, 9]}, "cannot delete job 7: 2 other jobs wait for it (8, 9)"),
        (SchemaMismatch(3, 1, "do this"), {"found": 3, "wanted": 1}, "version 3, this code needs version 1: do this"),
        (SchemaMismatch(3, 3, "do this", "one is missing"), {"found": 3, "wanted": 3}, "one is missing: do this"),
        (StoreUnavailable("gone", "wait"), {"problem": "gone", "advice": "wait"}, "gone. wait"),
        (StoreUnavailable("gone"), {"advice": ""}, "gone"),
        (Retry(delay=5), {"delay_seconds": 5.0, "reason": ""}, "retry in 5 s"),
        (Retry(timedelta(minutes=1), "busy"), {"delay_seconds": 60.0, "reason": "busy"}, "busy"),
        (Snooze(timedelta(minutes=1)), {"delay_seconds": 60.0}, "snooze for 60 s"),
        (Fail("A:B", "why"), {"code": "A:B", "detail": "why"}, "A:B: why"),
        (Fail("A:B"), {"detail": ""}, "A:B"),
        (Cancel("why"), {"reason": "why"}, "why"),
        (Cancel(), {"reason": ""}, "cancelled by the handler"),
    ],
)
def test_an_error_has_fields_and_a_message(error: Exception, fields: dict[str, object], said: str) -> None:
    assert {name: getattr(error, name) for name in fields} == fields
    assert said in str(error)


@pytest.mark.parametrize("given", [0, 0.0, 1, 2.5, timedelta(seconds=2.5), timedelta(0)])
def test_a_duration_is_seconds_or_a_timedelta(given: float | timedelta) -> None:
    wanted = given.total_seconds() if isinstance(given, timedelta) else given
    assert seconds_of("delay", given) == wanted


@pytest.mark.parametrize(
    "given", [-1, -0.001, timedelta(seconds=-1), float("nan"), float("inf"), 1e10, timedelta.max, "5", None, True, [1]]
)
def test_a_wrong_duration_is_refused_by_name(given: object) -> None:
    with pytest.raises(InvalidOption, match=r"^delay must be") as caught:
        seconds_of("delay", given)  # type: ignore[arg-type]
    assert caught.value.option == "delay"


@pytest.mark.parametrize("control", [Retry, Snooze])
def test_a_handler_cannot_ask_for_a_negative_delay(control: type[Retry] | type[Snooze]) -> None:
    with pytest.raises(InvalidOption, match="delay"):
        control(delay=-1)


# how a problem begins that is not about the option as a whole, and so follows a colon
AFTER_A_COLON = {"'localtime'", "a", "an", "each", "no", "SQLite", "pass", "the", "this", "unknown"}


def beginnings_of_problems() -> set[str]:
    """Return the first word of every `InvalidOption` in the source, where it is not a value."""
    found: set[str] = set()
    for path in Path(errors.__file__).parents[1].rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "InvalidOption":
                problem = node.args[1]
                first = problem.values[0] if isinstance(problem, ast.JoinedStr) else problem
                if isinstance(first, ast.Constant):
                    found.add(str(first.value).split()[0])
    return found


def test_a_problem_is_a_sentence_about_the_option_or_follows_a_colon() -> None:
    assert beginnings_of_problems() - {*VERBS} == AFTER_A_COLON
    assert str(InvalidOption("connection", "is closed")) == "connection is closed"
    assert str(InvalidOption("connection", "cannot be used: closed")) == "connection cannot be used: closed"
    assert str(InvalidOption("tz", "unknown time zone 'x'")) == "tz: unknown time zone 'x'"


def test_the_time_of_the_next_attempt_is_a_delay_or_a_moment() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    assert (Retry(run_at=at).run_at_ms, Snooze(run_at=at).run_at_ms) == (1_893_456_000_000, 1_893_456_000_000)
    assert (str(Retry(run_at=at)), str(Snooze(run_at=at))) == (
        "retry at 2030-01-01 00:00:00 UTC",
        "snooze until 2030-01-01 00:00:00 UTC",
    )
    assert (Retry().delay_seconds, Retry().run_at_ms) == (0.0, None)
    for wrong in (
        lambda: Retry(5, run_at=at),
        lambda: Snooze(5, run_at=at),
        lambda: Snooze(),
        lambda: Retry(run_at=datetime(2030, 1, 1)),
        lambda: Snooze(run_at="tomorrow"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidOption):
            wrong()
