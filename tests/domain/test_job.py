from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rowcall import ChainPage, Job, Page, Status, Summary
from rowcall.domain.job import FINISHED, WAITING

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PINNED_FIELDS = (
    "id type queue payload status priority attempt max_attempts run_at created_at claimed_at started_at finished_at"
    " worker heartbeat_at progress result error_code error_detail key tags chain_id chain_index"
)


def a_job() -> Job:
    return Job(id=1, type="t", queue="q", payload={}, status=Status.PENDING, run_at=NOW, created_at=NOW)


def test_the_states_are_those_of_the_api() -> None:
    assert list(Status) == ["blocked", "scheduled", "pending", "running", "succeeded", "failed", "cancelled"]


def test_every_state_waits_runs_or_is_finished() -> None:
    assert sorted([*WAITING, Status.RUNNING, *FINISHED]) == sorted(Status)


def test_a_job_has_the_pinned_fields() -> None:
    job = a_job()
    assert [name for name in PINNED_FIELDS.split() if not hasattr(job, name)] == []


def test_a_job_is_a_frozen_snapshot() -> None:
    with pytest.raises(AttributeError):
        a_job().status = Status.RUNNING  # type: ignore[misc]
    assert a_job() == a_job()


def test_a_page_is_iterated_by_its_jobs() -> None:
    page = Page(jobs=[a_job()], next_cursor="x")
    assert (list(page), len(page), a_job() in page, len(Page(jobs=[]))) == ([a_job()], 1, True, 0)
    shown = {"jobs": [a_job().to_dict()], "next_cursor": "x", "partial": False, "searched": 0}
    assert dict(page) == page.to_dict() == shown
    assert list(ChainPage(chains=[])) == []
    assert len(ChainPage(chains=[])) == 0


def test_a_status_compares_with_its_word() -> None:
    job = a_job()
    assert job.status == "pending"
    assert f"{job.status}" == "pending"


def test_a_summary_adds_up() -> None:
    summary = Summary(succeeded=1, failed=2, retried=3, snoozed=4, cancelled=5, released=6)
    assert summary.total == 21
