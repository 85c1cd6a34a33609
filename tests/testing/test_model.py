"""The model must notice a store that is wrong: each case breaks one rule of the real one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rowcall.domain.lifecycle import Lost, Transition, Tries, decide
from rowcall.operations import by_hand
from rowcall.store.control import actions
from rowcall.store.control.queries import Rerun
from rowcall.store.dialect import Dialect, Ready
from rowcall.store.jobs import recover
from rowcall.store.sqlite.dialect import SqliteDialect
from rowcall.store.sqlite.flows_sql import FlowsSql
from rowcall.store.statement import Plan
from rowcall.testing.conformance.model.flow_machine import FlowMachine
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
    right = actions.rerun_locked

    def wrong(dialect: Dialect, jobs: Sequence[Rerun], now_ms: int | None) -> Plan[None]:
        return right(dialect, [job._replace(more_attempts=0) for job in jobs], now_ms)

    monkeypatch.setattr(actions, "rerun_locked", wrong)


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


def nobody_passes_his_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowsSql, "pass_turn", "update <job> set turn = turn where 0")


FLOW_WRONGS: dict[str, Break] = {
    "nobody_follows_an_end": lambda patch: patch.setattr(SqliteDialect, "ended_edges", nothing([])),
    "what_has_ended_already_is_waited_for": lambda patch: patch.setattr(SqliteDialect, "ends_of", nothing([])),
    "keys_are_not_looked_at": lambda patch: patch.setattr(SqliteDialect, "key_holders", nothing([])),
    "nobody_passes_his_turn": nobody_passes_his_turn,
    "places_are_not_taken": lambda patch: patch.setattr(SqliteDialect, "take_slots", nothing(None)),
    "places_are_not_given_back": lambda patch: patch.setattr(SqliteDialect, "free_slots", nothing([])),
}


class File:
    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"

    def execute(self, sql: str) -> list[Row]:
        raise AssertionError(f"the machine asks the queue, never the file: {sql}")


CASES = [
    *(pytest.param(QueueMachine, wrong, id=name) for name, wrong in WRONGS.items()),
    *(pytest.param(FlowMachine, wrong, id=name) for name, wrong in FLOW_WRONGS.items()),
]


@pytest.mark.parametrize(("model", "break_store"), CASES)
def test_a_wrong_store_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: type[QueueMachine], break_store: Break
) -> None:
    break_store(monkeypatch)
    numbers = itertools.count()

    class Machine(model):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(File(tmp_path / f"queue-{next(numbers)}.db"))

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=QUICK)
