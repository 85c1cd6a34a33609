"""Values of rows about steps."""

from __future__ import annotations

from datetime import UTC, datetime

from rowcall import StepKind, StepStatus
from rowcall.store.queries.steps import recorded_from_row


def test_a_recorded_step() -> None:
    step = recorded_from_row((1, "wait", "go", "finished", 2, 0, 1000, None, 2000, None, None, '{"a": 1}'))
    assert (step.kind, step.status, step.result) == (StepKind.WAIT, StepStatus.FINISHED, {"a": 1})
    assert (step.started_at, step.due_at) == (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None)
    assert step.to_dict()["finished_at"] == "1970-01-01T00:00:02Z"
