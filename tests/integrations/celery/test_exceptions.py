from __future__ import annotations

from rowcall.compat.celery import Celery, Reject
from rowcall.integrations.celery.exceptions import ExceptionInfo


def test_a_job_that_is_rejected_may_run_again(app: Celery) -> None:
    @app.task
    def reject() -> None:
        raise Reject("busy", requeue=True)

    result = reject.delay()
    app.jobs.drain()
    assert (result.job.status, result.job.attempt, result.state) == ("scheduled", 0, "PENDING")


def test_a_traceback_is_a_text() -> None:
    assert ExceptionInfo("Traceback …").traceback == "Traceback …"
