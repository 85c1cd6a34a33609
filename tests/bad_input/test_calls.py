"""A wrong call is refused where it was made, says what is wrong, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rowcall import InvalidArguments, InvalidOption, JobNotFound, Rowcall, RowcallError, UnknownEvent
from rowcall.task import Task


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def send(jobs: Rowcall) -> Task[..., None]:
    @jobs.task
    def send(to: str, copies: int = 1) -> None: ...

    return send


Call = Callable[[Task[..., Any], Rowcall], object]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        pytest.param(
            lambda send, jobs: send.using(prority=3),
            InvalidOption,
            ["unknown option 'prority' (did you mean 'priority'?)"],
            id="unknown option",
        ),
        pytest.param(lambda send, jobs: jobs.stack(999), JobNotFound, ["999"], id="stack of a missing job"),
        pytest.param(
            lambda send, jobs: jobs.stack(1, timeout=-1),
            InvalidOption,
            ["timeout", "-1"],
            id="stack with a negative timeout",
        ),
        pytest.param(
            lambda send, jobs: send.enqueue(too="a"), InvalidArguments, ["send: ", "'too'"], id="wrong argument name"
        ),
        pytest.param(
            lambda send, jobs: send.enqueue("a", 1, 2),
            InvalidArguments,
            ["send: takes at most 2 positional arguments, got 3"],
            id="too many arguments",
        ),
        pytest.param(
            lambda send, jobs: send.enqueue(), InvalidArguments, ["send: missing argument 'to'"], id="too few"
        ),
        pytest.param(
            lambda send, jobs: send.enqueue("a", "two"),
            InvalidArguments,
            ["expected `int`, got `str`", "'copies'"],
            id="wrong type",
        ),
        pytest.param(
            lambda send, jobs: jobs.enqueue("any", {"a": {"b": [object()]}}),
            InvalidArguments,
            ["any: argument 'a.b[0]' is a builtins.object, which is not JSON"],
            id="no JSON",
        ),
        pytest.param(
            lambda send, jobs: jobs.enqueue("any", {"a": float("nan")}),
            InvalidArguments,
            ["NaN or infinity, which is not JSON; use None or a string"],
            id="not a number",
        ),
        pytest.param(
            lambda send, jobs: send.enqueue("a\0b"),
            InvalidArguments,
            ["a string with a NUL character, which databases refuse; remove it"],
            id="NUL in a text",
        ),
        pytest.param(
            lambda send, jobs: send.using(queue="a\0b"),
            InvalidOption,
            ["queue must not contain a NUL character"],
            id="NUL in an option",
        ),
        pytest.param(
            lambda send, jobs: send.using(run_at=datetime(2030, 1, 1)).enqueue("a"),
            InvalidOption,
            ["run_at must have a time zone, such as datetime.now(UTC)"],
            id="naive datetime",
        ),
        pytest.param(
            lambda send, jobs: send.using(delay=-1).enqueue("a"),
            InvalidOption,
            ["delay must be a duration from 0 s", "got -1"],
            id="negative delay",
        ),
        pytest.param(
            lambda send, jobs: jobs.publish("order.paid", {}),
            UnknownEvent,
            ["unknown event 'order.paid'; events with tasks here: none"],
            id="an unknown event",
        ),
        pytest.param(
            lambda send, jobs: jobs.publish("", {}),
            InvalidOption,
            ["event must have 1 to 200 characters, got 0"],
            id="an event without a name",
        ),
        pytest.param(
            lambda send, jobs: jobs.task(on=["a", 7]), InvalidOption, ["on: each must be", "got 7"], id="an odd event"
        ),
        pytest.param(
            lambda send, jobs: send.using(on="a"), InvalidOption, ["on is an option of task(on=…)"], id="on of one job"
        ),
        pytest.param(
            lambda send, jobs: Rowcall("oracle://localhost/app"),
            InvalidOption,
            ["url: unknown database oracle://", "sqlite:///app.db"],
            id="URL of an unknown kind",
        ),
    ],
)
def test_a_wrong_call(
    jobs: Rowcall, send: Task[..., None], call: Call, error: type[RowcallError], said: list[str]
) -> None:
    with pytest.raises(error) as caught:
        call(send, jobs)
    assert [words for words in said if words not in str(caught.value)] == []
    assert jobs.stats().total == 0
    assert send.enqueue("a").id == 1
