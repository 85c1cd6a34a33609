"""The model must notice a store that is wrong: each case breaks one rule of the real one."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rowcall.domain.outcome import AttemptBudget, Lost, Transition, decide
from rowcall.operations import by_hand
from rowcall.store.claims.round import Round
from rowcall.store.control import single_actions
from rowcall.store.dialect import Dialect
from rowcall.store.queries.claims import DELETE_READY, RENEW
from rowcall.store.queries.control import Rerun
from rowcall.store.queries.counts import WAITING_ERRORS
from rowcall.store.queries.ends import FIND_EXPIRED
from rowcall.store.queries.flows import ENDED_EDGES, ENDS_OF, KEY_HOLDERS, PASS_TURN
from rowcall.store.queries.jobs import DELETE, STAGE
from rowcall.store.queries.limits import RESERVE_SLOTS, SLOTS_OF
from rowcall.store.recovery import recover
from rowcall.store.sqlite.dialect import SqliteDialect
from rowcall.store.statement import Catalogue, Change, Plan, Query
from tests.conformance.model.flow_machine import FlowMachine
from tests.conformance.model.machine import QueueMachine
from tests.conformance.test_sqlite import SqliteFile

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


def one_attempt_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    right = decide

    def wrong(tries: AttemptBudget, *arguments: Any, **options: Any) -> Transition:
        return right(AttemptBudget(tries.attempt, tries.max_attempts + 1), *arguments, **options)

    monkeypatch.setattr(by_hand, "decide", wrong)


def a_manual_retry_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    right = single_actions.rerun_locked

    def wrong(dialect: Dialect, jobs: Sequence[Rerun]) -> Plan[None]:
        return right(dialect, [job._replace(more_attempts=0) for job in jobs])

    monkeypatch.setattr(single_actions, "rerun_locked", wrong)


def recovery_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recover, "Lost", lambda started, *more: Lost(False, *more))


def silent(query: Query[object], *rows: object) -> Break:
    """Break a query: it runs nothing, and returns these rows."""
    real_ask, real_change = Catalogue.ask, SqliteDialect.change

    def ask(self: Catalogue, asked: Query[object], *values: object) -> Plan[list[object]]:
        return list(rows) if asked is query else (yield from real_ask(self, asked, *values))

    def change(self: SqliteDialect, asked: Change, *values: object) -> Plan[int]:
        return 0 if asked is query else (yield from real_change(self, asked, *values))

    def broken(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Catalogue, "ask", ask)
        patch.setattr(SqliteDialect, "change", change)

    return broken


WRONGS: dict[str, Break] = {
    "one_attempt_too_many": one_attempt_too_many,
    "a_manual_retry_adds_nothing": a_manual_retry_adds_nothing,
    "recovery_does_not_count": recovery_does_not_count,
    "heartbeats_renew_nothing": silent(RENEW, (0,)),
    "what_is_due_stays": silent(STAGE),
    "nothing_expires": silent(FIND_EXPIRED),
    "deleted_jobs_stay": silent(DELETE),
    "a_lost_job_is_not_charged": lambda patch: patch.setattr(Round, "_is_marked", lambda self, job: False),
}


WRONG_ANSWERS: dict[str, Break] = {
    "claimed_jobs_stay_ready": silent(DELETE_READY),
    "errors_of_waiting_jobs_are_not_counted": silent(WAITING_ERRORS, (0, 0)),
}

FLOW_WRONGS: dict[str, Break] = {
    "edges_are_not_resolved": silent(ENDED_EDGES, []),
    "ended_blockers_are_waited_for": silent(ENDS_OF, []),
    "keys_are_ignored": silent(KEY_HOLDERS, []),
    "turns_are_not_passed": silent(PASS_TURN),
    "slots_are_not_taken": silent(RESERVE_SLOTS),
    "slots_are_not_freed": silent(SLOTS_OF, []),
}


class RowMachine(QueueMachine):
    def all_answers_agree(self) -> None:
        """Leave them out: the rows are wrong, and quicker to compare."""


class FlowRowMachine(FlowMachine):
    def all_answers_agree(self) -> None:
        """Leave them out here, too."""


CASES = [
    *(pytest.param(RowMachine, wrong, id=name) for name, wrong in WRONGS.items()),
    *(pytest.param(FlowRowMachine, wrong, id=name) for name, wrong in FLOW_WRONGS.items()),
    *(pytest.param(QueueMachine, wrong, id=name) for name, wrong in WRONG_ANSWERS.items()),
]


@pytest.mark.parametrize(("model", "break_store"), CASES)
def test_a_wrong_store_is_noticed(
    tmp_path: Path,
    sqlite_template: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: type[QueueMachine],
    break_store: Break,
) -> None:
    break_store(monkeypatch)
    numbers = itertools.count()

    class Machine(model):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(SqliteFile(Path(shutil.copyfile(sqlite_template, tmp_path / f"queue-{next(numbers)}.db"))))

    with pytest.raises((AssertionError, pytest.fail.Exception)):  # a case also fails where no error is raised
        run_state_machine_as_test(Machine, settings=QUICK)
