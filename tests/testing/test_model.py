"""The model must notice a store that is wrong: each case breaks one rule of the real one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rowcall.lifecycle import Lost, Transition, Tries, decide
from rowcall.queue import by_hand
from rowcall.store.dialect import Ready
from rowcall.store.plans import recover
from rowcall.store.sqlite.dialect import SqliteDialect
from rowcall.store.statement import Plan
from rowcall.store.steered import Rerun
from rowcall.testing.conformance.model.machine import QueueMachine
from rowcall.testing.conformance.store import Row

QUICK = settings(
    max_examples=100,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)

Break = Callable[[pytest.MonkeyPatch], None]


def nothing(answer: object) -> Callable[..., Plan[object]]:
    """A plan that says it did what it was asked, and did nothing."""

    def plan(*_: object) -> Plan[object]:
        return answer
        yield

    return plan


def one_attempt_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    right = decide

    def wrong(tries: Tries, *arguments: Any, **options: Any) -> Transition:
        return right(Tries(tries.attempt, tries.max_attempts + 1), *arguments, **options)

    monkeypatch.setattr(by_hand, "decide", wrong)


def a_manual_retry_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SqliteDialect.rerun

    def wrong(self: SqliteDialect, jobs: Sequence[Rerun], now_ms: int | None) -> Plan[None]:
        return right(self, [job._replace(more_attempts=0) for job in jobs], now_ms)

    monkeypatch.setattr(SqliteDialect, "rerun", wrong)


def recovery_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recover, "Lost", lambda started: Lost(started=False))


WRONGS: dict[str, Break] = {
    "one_attempt_too_many": one_attempt_too_many,
    "a_manual_retry_adds_nothing": a_manual_retry_adds_nothing,
    "recovery_does_not_count": recovery_does_not_count,
    "heartbeats_renew_nothing": lambda patch: patch.setattr(SqliteDialect, "heartbeat", nothing(True)),
    "what_is_due_stays": lambda patch: patch.setattr(SqliteDialect, "stage", nothing(None)),
    "nothing_expires": lambda patch: patch.setattr(SqliteDialect, "expire", nothing(None)),
    "deleted_jobs_stay": lambda patch: patch.setattr(SqliteDialect, "delete", nothing(None)),
    "anything_is_buffered": lambda patch: patch.setattr(Ready, "bufferable", True),
}


class File:
    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"

    def execute(self, sql: str) -> list[Row]:
        raise AssertionError(f"the machine asks the queue, never the file: {sql}")


@pytest.mark.parametrize("break_store", WRONGS.values(), ids=WRONGS.keys())
def test_a_wrong_store_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, break_store: Break) -> None:
    break_store(monkeypatch)
    numbers = itertools.count()

    class Machine(QueueMachine):
        def __init__(self) -> None:
            super().__init__(File(tmp_path / f"queue-{next(numbers)}.db"))

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=QUICK)
