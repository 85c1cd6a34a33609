"""Assertions that print what was enqueued instead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.testing import assert_enqueued, assert_not_enqueued, clean_queue
from tests.testing.queues import flaky, jobs, send_email


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with clean_queue(jobs):
        yield


def test_jobs_are_found_by_some_of_their_arguments() -> None:
    first = send_email.enqueue("a", subject="one")
    second = send_email.enqueue("a")
    jobs.drain(raise_errors=True)
    assert [job.id for job in assert_enqueued(send_email, to="a")] == [first.id, second.id]
    assert [job.id for job in assert_enqueued(send_email, subject="hi")] == [second.id]  # the default
    assert_not_enqueued(send_email, to="b")
    assert_not_enqueued(flaky)


def test_values_compare_as_the_handler_gets_them_or_as_json(tmp_path: Path) -> None:
    other, at = Rowcall(tmp_path / "app.db"), datetime(2030, 1, 1, tzinfo=UTC)

    @other.task
    def file(path: Path, at: datetime, /) -> None: ...

    with clean_queue(other):
        file.enqueue(Path("a.csv"), at)
        assert_enqueued(file, path=Path("a.csv"), at=at)
        assert_enqueued(file, path="a.csv")
        assert_not_enqueued(file, path=Path("b.csv"))


def test_the_failure_shows_what_was_enqueued() -> None:
    with pytest.raises(AssertionError) as said:
        assert_enqueued(send_email, to="a")
    assert str(said.value) == "no job was enqueued as send_email(to='a')\nnothing was enqueued"
    send_email.enqueue("b")
    flaky.using(queue="slow", delay=5).enqueue(1)
    with pytest.raises(AssertionError) as said:
        assert_enqueued(send_email, to="a")
    assert str(said.value).splitlines() == [
        "no job was enqueued as send_email(to='a')",
        "enqueued were:",
        "  send_email(to='b')  pending, queue default",
        "  flaky(failures=1)  scheduled, queue slow",
    ]
    with pytest.raises(AssertionError) as said:
        assert_not_enqueued(send_email, to="b")
    assert str(said.value).splitlines() == [
        "1 job was enqueued as send_email(to='b'):",
        "  send_email(to='b')  pending, queue default",
    ]


def test_many_jobs_are_cut_short() -> None:
    send_email.enqueue_many([{"to": f"{number}"} for number in range(30)])
    with pytest.raises(AssertionError, match=r"(?s)30 jobs were enqueued.*to='19'.*and 10 more$"):
        assert_not_enqueued(send_email)


def test_a_wrong_name_is_not_an_absent_job() -> None:
    with pytest.raises(InvalidOption, match=r"'send_email' has no argument 'too'; it has to, subject"):
        assert_not_enqueued(send_email, too="a")
    with pytest.raises(InvalidOption, match="must be a task"):
        assert_enqueued(3)  # type: ignore[arg-type]
