"""Whether a recorded step is over."""

from __future__ import annotations

import pytest

from rowcall.domain.step import StepRow


@pytest.mark.parametrize(
    ("kind", "status", "due_in_ms", "is_over"),
    [
        ("step", "finished", None, True),
        ("wait", "timed_out", -1, True),
        ("sleep", "waiting", 0, True),
        ("sleep", "waiting", 1, False),
        ("wait", "waiting", 0, False),  # its end must be recorded first: a signal may come at the same time
        ("step", "waiting", 0, False),
    ],
)
def test_is_over(kind: str, status: str, due_in_ms: int | None, is_over: bool) -> None:
    row = StepRow(1, kind, "x", status, 0, 0, due_in_ms, None)
    assert row.is_over is is_over
