from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from rowcall import Job, Schedule, Status
from rowcall.declare.failures import Failures
from rowcall.domain.payload import RAW_KEY
from rowcall.domain.step import RecordedStep, StepKind, StepStatus
from rowcall.overview.scrub import scrubbed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB: Job = Job(
    id=1,
    type="send",
    queue="hunter2",
    payload={"password": "hunter2", "list": ["a hunter2", 2]},
    status=Status.FAILED,
    priority=0,
    attempt=1,
    max_attempts=1,
    run_at=NOON,
    created_at=NOON,
    error_code="A:B",
    error_detail="no hunter2",
    tags=("hunter2", "red"),
    key="hunter2",
)


def hide(text: str) -> str:
    return text.replace("hunter2", "***")


def test_texts_values_tags_and_keys_are_scrubbed_and_names_are_not() -> None:
    shown = scrubbed(Failures(hide), JOB)
    assert shown.payload == {"password": "***", "list": ["a ***", 2]}
    assert (shown.error_detail, shown.key, shown.tags) == ("no ***", "***", ("***", "red"))
    assert (shown.queue, shown.id, shown.error_code) == ("hunter2", 1, "A:B")


def test_targets_and_the_names_of_steps_are_scrubbed_and_names_of_schedules_are_not() -> None:
    failures = Failures(hide)
    job = msgspec.structs.replace(JOB, target="https://app.example/?token=hunter2")
    assert scrubbed(failures, job).target == "https://app.example/?token=***"
    step = RecordedStep(
        position=1,
        kind=StepKind.STEP,
        name="charge hunter2",
        status=StepStatus.WAITING,
        attempt=1,
        failures=1,
        started_at=NOON,
        due_at=None,
        finished_at=None,
        error_code="A:B",
        error_detail="no hunter2",
        result="hunter2",
    )
    shown = scrubbed(failures, step)
    assert (shown.name, shown.error_detail, shown.result) == ("charge ***", "no ***", "***")
    assert scrubbed(failures, Schedule(name="hunter2", task="a", arguments={})).name == "hunter2"


def test_without_a_scrubber_it_is_the_same_value() -> None:
    assert scrubbed(Failures(), JOB) is JOB


def test_a_payload_that_is_not_json_any_more_is_shown_as_text() -> None:
    shown = scrubbed(Failures(lambda text: "hidden"), JOB)
    assert shown.payload == {RAW_KEY: "hidden"}
