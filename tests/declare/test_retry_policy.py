"""Which retry policy an attempt has."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowcall import Backoff
from rowcall.declare.declaration import Declaration
from rowcall.declare.option_table import Options
from rowcall.declare.retry_policy import policy_of
from rowcall.domain.backoff import DEFAULT_BACKOFF, RetryPolicy, backoff_to_text


def declared(retry: RetryPolicy | None) -> Declaration:
    return Declaration("task", lambda: None, Options(retry=retry))


def test_the_row_comes_first_then_the_task_then_the_default() -> None:
    row, task = Backoff.constant(1), Backoff.constant(2)
    assert policy_of(declared(task), backoff_to_text(row)) == row
    assert policy_of(declared(task), None) == task
    assert policy_of(declared(None), None) is policy_of(None, None) is DEFAULT_BACKOFF


def test_a_policy_in_the_row_that_cannot_be_read_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    assert policy_of(declared(Backoff.constant(2)), "nonsense") == Backoff.constant(2)
    assert "ignored the retry policy in a job's row: not a retry policy" in caplog.text


@pytest.mark.parametrize(("answer", "seconds"), [(5, 5.0), (timedelta(minutes=1), 60.0), ("soon", 60.0), (None, None)])
def test_a_callable_that_fails_counts_as_the_default(answer: object, seconds: float | None) -> None:
    policy = policy_of(declared(lambda attempt, error: answer), None)  # type: ignore[arg-type]
    assert callable(policy)
    assert policy(2, ValueError()) == seconds
