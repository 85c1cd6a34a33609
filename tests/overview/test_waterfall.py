from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from rowcall import Attempt, Job, RecordedStep, Rowcall, StepKind, StepStatus
from rowcall.overview.waterfall import text_bar, waterfall

HOUR = 3600.0
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else BEGIN + timedelta(seconds=seconds)


def attempt(begin: float, end: float | None) -> Attempt:
    times = {"claimed_at": at(begin), "started_at": at(begin), "finished_at": at(end)}
    return msgspec.convert({"job_id": 1, "attempt": 1, "status": "snoozed", **times}, Attempt)


def step(kind: StepKind, name: str, begin: float, end: float | None) -> RecordedStep:
    status = StepStatus.WAITING if end is None else StepStatus.FINISHED
    fields = {"attempt": 1, "failures": 0, "due_at": None, "error_code": None, "error_detail": None, "result": None}
    times = {"started_at": at(begin), "finished_at": at(end)}
    return RecordedStep(position=1, kind=kind, name=name, status=status, **fields, **times)  # type: ignore[arg-type]


def job_with(folder: Path, status: str) -> Job:
    with Rowcall(folder / "app.db") as jobs:
        return msgspec.structs.replace(jobs.enqueue("order"), status=status, finished_at=at(2 * HOUR + 3))


def test_a_wait_of_hours_leaves_room_for_steps_of_seconds(tmp_path: Path) -> None:
    attempts = [attempt(0, 2), attempt(HOUR + 2, HOUR + 3)]
    steps = [
        step(StepKind.STEP, "load", 0, 2),
        step(StepKind.SLEEP, "", 2, HOUR + 2),
        step(StepKind.STEP, "charge", HOUR + 2, HOUR + 3),
        step(StepKind.WAIT, "paid", HOUR + 3, None),
    ]
    now = BEGIN + timedelta(seconds=2 * HOUR + 3)
    bars = waterfall(job_with(tmp_path, "scheduled"), attempts, steps, now)
    assert [(bar.label, bar.seconds, bar.is_open) for bar in bars] == [
        ("handler", 3, False),
        ("load", 2, False),
        ("sleep", HOUR, False),
        ("charge", 1, False),
        ("wait paid", HOUR, True),
    ]
    assert [text_bar(bar, 12, "#.") for bar in bars] == [  # the runs have half of the room, to scale
        "####   ##   ",
        "####        ",
        "    ...     ",
        "       ##   ",
        "         ...",
    ]
    over = waterfall(job_with(tmp_path, "cancelled"), attempts, steps, now + timedelta(days=1))
    assert [(bar.seconds, bar.is_open) for bar in over[-1:]] == [(HOUR, False)]


def test_the_attempt_that_runs_reaches_to_now(tmp_path: Path) -> None:
    steps = [step(StepKind.STEP, "load", 0, 1)]
    bars = waterfall(job_with(tmp_path, "running"), [attempt(0, None)], steps, BEGIN + timedelta(seconds=4))
    assert [(bar.seconds, bar.is_open, text_bar(bar, 8)) for bar in bars] == [
        (4, True, "████████"),
        (1, False, "██      "),
    ]
    assert waterfall(job_with(tmp_path, "running"), [attempt(0, None)], [], BEGIN) == []
