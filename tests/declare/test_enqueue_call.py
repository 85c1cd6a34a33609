"""What is refused as enqueue middleware, and what it sees."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rowcall import Backoff, InvalidOption, Limit, Rowcall
from rowcall.middleware import EnqueueCall


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


async def waiting(call: EnqueueCall) -> None: ...


def alone() -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (3, r"must be a function such as `def tagged\(call\)`, got 3"),
        (waiting, r"must be a plain function that does not wait: enqueue and aenqueue call .*waiting"),
        (alone, r"must take one EnqueueCall: .*alone: too many positional arguments"),
    ],
)
def test_what_cannot_be_enqueue_middleware_is_refused(jobs: Rowcall, function: object, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        jobs.enqueue_middleware(function)  # type: ignore[type-var]


def test_it_sees_options_as_they_were_given(jobs: Rowcall) -> None:
    seen: list[EnqueueCall] = []

    @jobs.task
    def charge(path: Path) -> None: ...

    before = charge.enqueue(Path("a"))
    jobs.enqueue_middleware(seen.append)
    at = datetime(2030, 1, 2, tzinfo=UTC)
    given = {
        "run_at": at,
        "expires_at": at + timedelta(days=1),
        "priority": 3,
        "tags": ("a", "b"),
        "timeout": 60.0,
        "retry": Backoff.linear(5),
        "key": "one",
        "key_window": 1.5,
        "limit": (Limit("cards", concurrency=2),),
    }
    job = charge.using(after=before, **given).enqueue(Path("b"))  # type: ignore[arg-type]
    (call,) = seen
    assert (call.task, call.arguments, call.options) == ("charge", {"path": "b"}, given)
    assert repr(call).startswith("<enqueue of 'charge' with ")
    assert (job.status, job.key, job.tags, job.priority, job.run_at) == ("blocked", "one", ("a", "b"), 3, at)
