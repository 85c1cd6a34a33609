"""The values that rows become."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rowcall import StepKind, StepStatus
from rowcall.store.queries.steps import recorded_from_row
from rowcall.store.queries.workers import Peer, Survey, survey_from_row, worker_from_row


@pytest.mark.parametrize(
    ("claimed", "started", "expected"),
    [
        (2, 0, (2, 0)),  # it has slots for both, whether their rows say so or not
        (9, 1, (3, 6)),
        (9, 5, (5, 4)),  # abandoned handlers still run
    ],
)
def test_a_worker_runs_what_it_has_slots_for(claimed: int, started: int, expected: tuple[int, int]) -> None:
    worker = worker_from_row(
        ("w", "h", 1, "*", 3, "0", 0, 7, 1000, 15000, None, claimed, started, '{"send": "0123abcd"}')
    )
    assert (worker.running, worker.buffered) == expected
    assert (worker.lease_seconds, worker.tasks) == (15.0, ["send"])


def test_a_survey() -> None:
    found = survey_from_row(('[["w", "*", 7, 15000, null]]', 0, 1, 0))
    assert found == Survey([Peer("w", "*", 7, 15000, None)], False, True, False)


def test_a_recorded_step() -> None:
    step = recorded_from_row(
        (1, "wait", "go", "finished", 2, 0, 1000, None, 2000, None, None, '{"a": 1}', None, None, 7)
    )
    assert (step.kind, step.status, step.result, step.child_id) == (StepKind.WAIT, StepStatus.FINISHED, {"a": 1}, 7)
    assert (step.started_at, step.due_at) == (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None)
    assert step.to_dict()["finished_at"] == "1970-01-01T00:00:02Z"
