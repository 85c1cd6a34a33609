from __future__ import annotations

from typing import Any

import pytest

from rowcall import InvalidOption, JobNotFound
from rowcall.compat.celery import AsyncResult


def test_delay_and_results(shop: Any) -> None:
    result = shop.add.delay(1, 2)
    assert (result.state, result.ready(), result.result) == ("PENDING", False, None)
    shop.app.jobs.drain()
    assert (result.get(timeout=1), result.state, result.successful()) == (3, "SUCCESS", True)
    assert AsyncResult(result.id).get(timeout=1) == 3
    assert shop.add(1, 2) == 3
    result.forget()
    assert shop.app.jobs.list().jobs == []


def test_an_id_of_celery_itself_is_refused(shop: Any) -> None:
    assert AsyncResult(shop.add.delay(1, 2).id, app=shop.app).state == "PENDING"
    with pytest.raises(InvalidOption, match="number of a job, got 'd2f1-uuid'"):
        AsyncResult("d2f1-uuid")


def test_a_job_that_does_not_exist_is_pending(shop: Any) -> None:
    missing = AsyncResult("99")
    assert (missing.state, missing.ready(), missing.result, str(missing)) == ("PENDING", False, None, "99")
    missing.revoke()
    with pytest.raises(JobNotFound):
        missing.get(timeout=1)
