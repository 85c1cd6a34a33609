"""The options of a task and of an enqueue: what each means, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from rowcall import Backoff, BatchOptions, EnqueueOptions, InvalidOption, Job, Rowcall
from rowcall.declare.option_table import ENQUEUE_OPTIONS, TASK_OPTIONS, Options
from rowcall.domain.backoff import backoff_from_text
from rowcall.task import Task
from rowcall.testing import FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", clock=FakeClock(NOON), default_queue="usual") as jobs:
        yield jobs


@pytest.fixture
def task(jobs: Rowcall) -> Task[[], None]:
    @jobs.task
    def task() -> None: ...

    return task


Ways = list[Callable[[Mapping[str, Any]], Job]]


@pytest.fixture
def ways(jobs: Rowcall, task: Task[[], None]) -> Ways:
    """Every way in which the options of one enqueue can be given."""
    return [
        lambda given: task.using(**given).enqueue(),
        lambda given: task.using(**given).enqueue_many([{}])[0],
        lambda given: jobs.enqueue("task", **given),
        lambda given: jobs.enqueue("unheard_of", {}, **given),
    ]


def test_the_table_lists_what_type_checkers_see() -> None:
    task, enqueue = get_type_hints(BatchOptions), get_type_hints(EnqueueOptions)
    assert (set(TASK_OPTIONS), set(ENQUEUE_OPTIONS)) == (set(task), set(enqueue))
    fields = {option.field for option in (*TASK_OPTIONS.values(), *ENQUEUE_OPTIONS.values())}
    assert fields == set(Options.__struct_fields__)


def test_without_options(jobs: Rowcall, ways: Ways) -> None:
    for enqueue in ways:
        job = enqueue({})
        assert (job.status, job.queue, job.priority, job.attempt, job.max_attempts) == ("pending", "usual", 0, 0, 5)
        assert (job.run_at, job.created_at, job.expires_at, job.timeout, job.retry) == (NOON, NOON, None, None, None)
        assert (job.tags, job.key, job.payload, job.duplicate) == ((), None, {}, False)
        assert jobs.get(job.id) == job


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({"queue": "mail"}, "queue", "mail"),
        ({"queue": "ä/ü 1"}, "queue", "ä/ü 1"),
        ({"priority": 10}, "priority", 10),
        ({"priority": -10}, "priority", -10),
        ({"delay": 0}, "status", "pending"),
        ({"delay": 0.0004}, "status", "pending"),
        ({"delay": 0.001}, "status", "scheduled"),
        ({"delay": 60}, "run_at", NOON + timedelta(minutes=1)),
        ({"delay": 0.25}, "run_at", NOON + timedelta(milliseconds=250)),
        ({"delay": timedelta(hours=1)}, "run_at", NOON + timedelta(hours=1)),
        ({"run_at": NOON + timedelta(days=1)}, "run_at", NOON + timedelta(days=1)),
        ({"run_at": NOON + timedelta(days=1)}, "status", "scheduled"),
        ({"run_at": NOON - timedelta(days=1)}, "status", "pending"),
        (
            {"run_at": datetime(2030, 1, 1, 15, tzinfo=timezone(timedelta(hours=2)))},
            "run_at",
            NOON + timedelta(hours=1),
        ),
        ({"max_attempts": 1}, "max_attempts", 1),
        ({"timeout": 1.5}, "timeout", 1.5),
        ({"timeout": timedelta(minutes=2)}, "timeout", 120.0),
        ({"tags": ["a", "b"]}, "tags", ("a", "b")),
        ({"tags": ("b", "a", "b")}, "tags", ("b", "a")),
        ({"tags": []}, "tags", ()),
        ({"expires_in": 60}, "expires_at", NOON + timedelta(minutes=1)),
        ({"expires_in": timedelta(0)}, "expires_at", NOON),
        ({"expires_at": NOON + timedelta(days=1)}, "expires_at", NOON + timedelta(days=1)),
        ({"priority": None, "delay": None, "tags": None, "connection": None}, "priority", 0),
    ],
)
def test_an_option_is_read_back_as_written(
    jobs: Rowcall, ways: Ways, given: Mapping[str, Any], field: str, expected: object
) -> None:
    for enqueue in ways:
        job = enqueue(given)
        assert getattr(job, field) == expected
        assert jobs.get(job.id) == job


def test_a_retry_policy_is_stored_in_the_row(jobs: Rowcall, ways: Ways) -> None:
    policy = Backoff.exponential(2, cap=60, give_up_on=ValueError)
    for enqueue in ways:
        job = enqueue({"retry": policy})
        assert job.retry is not None
        assert backoff_from_text(job.retry) == policy
        assert jobs.get(job.id) == job


def test_options_of_a_job_override_those_of_its_task(jobs: Rowcall) -> None:
    @jobs.task(queue="media", priority=3, delay=60, max_attempts=2, expires_in=600, tags=["a"], timeout=5)
    def declared() -> None: ...

    for job in (declared.enqueue(), jobs.enqueue("declared"), declared.enqueue_many([{}])[0]):
        assert (job.queue, job.priority, job.max_attempts, job.tags) == ("media", 3, 2, ("a",))
        assert (job.run_at, job.expires_at) == (NOON + timedelta(seconds=60), NOON + timedelta(seconds=600))
        assert job.timeout is None  # the worker's declaration rules, unless the row says otherwise
    job = declared.using(
        queue="mail", priority=0, delay=0, max_attempts=9, expires_in=0, tags=["b", "a"], timeout=7
    ).enqueue()
    assert (job.queue, job.priority, job.max_attempts, job.tags) == ("mail", 0, 9, ("a", "b"))
    assert (job.run_at, job.expires_at, job.timeout) == (NOON, NOON, 7.0)
    job = declared.using(run_at=NOON - timedelta(1), expires_at=NOON + timedelta(1)).enqueue()
    assert (job.run_at, job.expires_at) == (NOON - timedelta(1), NOON + timedelta(1))


def test_an_unknown_option_is_refused_and_the_known_ones_are_named(jobs: Rowcall, ways: Ways) -> None:
    for enqueue in ways:
        with pytest.raises(InvalidOption) as caught:
            enqueue({"prority": 3})
        assert caught.value.option == "prority"
        assert str(caught.value) == "unknown option 'prority' (did you mean 'priority'?)"
    with pytest.raises(
        InvalidOption, match=r"unknown option 'tries'; known options: .*max_attempts, .*name, .*priority"
    ):
        jobs.task(tries=3)(lambda: None)  # type: ignore[call-overload]
    assert jobs.list().jobs == []


@pytest.mark.parametrize(("option", "value"), [("run_at", NOON), ("expires_at", NOON), ("connection", object())])
def test_an_option_of_an_enqueue_is_not_an_option_of_a_task(jobs: Rowcall, option: str, value: object) -> None:
    with pytest.raises(
        InvalidOption, match=rf"^{option} is an option of using\({option}=…\) and jobs.enqueue\(…\), not of a task$"
    ):
        jobs.task(**{option: value})(lambda: None)  # type: ignore[call-overload]


def test_a_name_is_not_an_option_of_an_enqueue(ways: Ways) -> None:
    for enqueue in ways:
        with pytest.raises(InvalidOption, match=r"^name is an option of task\(name=…\), not of a single job$"):
            enqueue({"name": "x"})


@pytest.mark.parametrize(
    ("given", "option", "said"),
    [
        ({"queue": ""}, "queue", "must have 1 to 200 characters, got 0"),
        ({"queue": "x" * 201}, "queue", "must have 1 to 200 characters, got 201"),
        ({"queue": 5}, "queue", "must be a string, got 5"),
        ({"queue": "a\0b"}, "queue", "NUL"),
        ({"queue": "\ud800"}, "queue", "surrogate"),
        ({"priority": 1.5}, "priority", "must be a whole number from"),
        ({"priority": "high"}, "priority", "must be a whole number from"),
        ({"priority": True}, "priority", "must be a whole number from"),
        ({"priority": 2**31}, "priority", "must be a whole number from"),
        ({"delay": -1}, "delay", "must be a duration from 0 s"),
        ({"delay": timedelta(seconds=-1)}, "delay", "must be a duration from 0 s"),
        ({"delay": "5"}, "delay", "must be seconds or a timedelta, got '5'"),
        ({"delay": float("nan")}, "delay", "must be a duration"),
        ({"delay": NOON}, "delay", "must be seconds or a timedelta, got datetime"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at", "must have a time zone, such as datetime.now(UTC)"),
        ({"run_at": 1_900_000_000}, "run_at", "must be a datetime, got 1900000000"),
        ({"run_at": date(2030, 1, 1)}, "run_at", "must be a datetime, got datetime.date"),
        ({"run_at": "2030-01-01T00:00:00Z"}, "run_at", "must be a datetime, got '2030"),
        ({"run_at": datetime(1970, 1, 1, tzinfo=UTC)}, "run_at", "must be after 1973"),
        ({"expires_at": datetime(2030, 1, 1)}, "expires_at", "must have a time zone"),
        ({"expires_in": -1}, "expires_in", "must be a duration from 0 s"),
        ({"max_attempts": 0}, "max_attempts", "must be a whole number from 1"),
        ({"max_attempts": "3"}, "max_attempts", "must be a whole number from 1"),
        ({"timeout": 0}, "timeout", "must be a duration from 0.001 s"),
        ({"timeout": -5}, "timeout", "must be a duration"),
        ({"timeout": 1e-9}, "timeout", "must be"),
        ({"retry": 5}, "retry", "must be a Backoff, or in task(…) a callable of (attempt, error), got 5"),
        ({"retry": lambda attempt, error: 5}, "retry", "a callable goes into task(retry=…)"),
        ({"tags": "urgent"}, "tags", "must be a list of strings, got 'urgent'"),
        ({"tags": 5}, "tags", "must be a list of strings, got 5"),
        ({"tags": ["a", 5]}, "tags", "each must be a string, got 5"),
        ({"tags": [""]}, "tags", "must have 1 to 200 characters"),
        ({"tags": ["a\0b"]}, "tags", "NUL"),
        ({"tags": ["\ud800"]}, "tags", "surrogate"),
        ({"tags": [str(number) for number in range(51)]}, "tags", "must have at most 50 entries, got 51"),
        ({"delay": 1, "run_at": NOON}, "run_at", "cannot be combined with delay"),
        ({"expires_in": 1, "expires_at": NOON}, "expires_at", "cannot be combined with expires_in"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_is_written(
    jobs: Rowcall, ways: Ways, given: Mapping[str, Any], option: str, said: str
) -> None:
    for enqueue in ways:
        with pytest.raises(InvalidOption) as caught:
            enqueue(given)
        assert caught.value.option == option
        assert said in str(caught.value)
    assert jobs.list().jobs == []


@pytest.mark.parametrize(
    "given", [{"queue": ""}, {"priority": "high"}, {"delay": -1}, {"max_attempts": 0}, {"timeout": 0}, {"retry": 5}]
)
def test_a_declaration_is_checked_when_it_is_made(jobs: Rowcall, given: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidOption) as caught:
        jobs.task(**given)
    assert [caught.value.option] == list(given)


def test_a_declaration_takes_a_callable_for_retry(jobs: Rowcall) -> None:
    @jobs.task(retry=lambda attempt, error: 5.0, max_attempts=2)
    def flaky() -> None:
        raise ValueError

    job = flaky.enqueue()
    assert jobs.drain().retried == 1
    assert jobs.get(job.id).run_at == NOON + timedelta(seconds=5)
