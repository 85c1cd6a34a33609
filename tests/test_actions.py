"""The table of actions."""

from __future__ import annotations

import pytest

from rowcall import Rowcall, Status, WrongState
from rowcall.actions import DELETE, ON_ONE, RETRY, SET_PRIORITY, BulkFilter, BulkOptions
from rowcall.domain.job import FINISHED, WAITING
from rowcall.testing import FakeClock


def test_an_action_is_a_method_and_the_end_of_a_path() -> None:
    assert list(ON_ONE) == ["retry", "cancel", "delete", "reschedule", "priority", "edit", "complete"]
    assert all(callable(getattr(Rowcall, action.name)) for action in ON_ONE.values())
    assert SET_PRIORITY.verb == "set the priority of"


@pytest.mark.parametrize("status", Status)
def test_the_states_of_jobs_that_can_be_changed(status: Status) -> None:
    can = {path for path, action in ON_ONE.items() if status in action.statuses}
    expected = {"retry"} if status in FINISHED else {"cancel", "priority"}
    expected |= {"reschedule", "edit", "complete"} if status in WAITING else set()
    expected |= {"delete"} if status is not Status.RUNNING else set()
    assert can == expected


def test_a_job_in_another_state_is_refused() -> None:
    with Rowcall("sqlite:///:memory:", clock=FakeClock()) as jobs:
        job = jobs.enqueue("send")
        SET_PRIORITY.check(job)
        with pytest.raises(WrongState):
            RETRY.check(job)
        with pytest.raises(WrongState) as caught:
            SET_PRIORITY.check(jobs.cancel(job))
    error = caught.value
    assert (error.job_id, error.status, error.move) == (job.id, "cancelled", "set the priority of")
    assert error.allowed == ["blocked", "scheduled", "pending", "running"]


def test_a_parameter_is_not_a_filter() -> None:
    assert all(not set(action.parameters) & BulkFilter.__annotations__.keys() for action in ON_ONE.values())
    assert BulkOptions.__annotations__.keys() - BulkFilter.__annotations__.keys() == {"actor", "connection"}
    assert DELETE.parameters == ("connection",)
