from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowcall import InvalidArguments, InvalidOption, JobFailed


def test_options_of_a_call(shop: Any) -> None:
    later = shop.add.apply_async((1, 2), countdown=60, priority=7, expires=3600, queue="slow")
    assert (later.job.priority, later.job.queue, later.job.status) == (7, "slow", "scheduled")
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    assert shop.add.apply_async((1, 2), eta=at).job.run_at == at
    assert shop.add.apply_async((1, 2), eta=at.replace(tzinfo=None)).job.run_at == at
    assert shop.mail_receipt.delay("ann").job.queue == "mail"
    assert shop.report.delay("monday").job.queue == "reports"
    later.revoke()
    assert later.state == "REVOKED"
    with pytest.raises(InvalidOption, match="link_error"):
        shop.add.apply_async((1, 2), link_error=shop.wrong.s())


def test_a_link_runs_after_success(shop: Any) -> None:
    first = shop.add.apply_async((1, 2), link=shop.double.s())
    jobs = shop.app.jobs
    jobs.drain()
    assert first.get(timeout=1) == 3
    assert [job.result for job in jobs.list(type="shop.double").jobs] == [6]


def test_only_what_asks_for_it_is_retried(shop: Any) -> None:
    charged, failed, flaky, gave_up = (
        shop.charge.delay(7),
        shop.wrong.delay(),
        shop.flaky.delay("x"),
        shop.give_up.delay(),
    )
    for _ in range(6):
        shop.app.jobs.drain()
    assert [tried for tried in shop.tries if tried != "x"] == [(7, retries, charged.id) for retries in range(3)]
    assert charged.state == failed.state == gave_up.state == "FAILURE"
    assert failed.job.attempt == 1
    assert "ValueError: never retried" in (failed.traceback or "")
    assert "MaxRetriesExceededError" in (gave_up.traceback or "")
    with pytest.raises(JobFailed, match="no answer"):
        charged.get(timeout=1)
    assert isinstance(charged.result, JobFailed)
    assert flaky.get(timeout=10) == 3


def test_a_call_with_its_arguments_in_a_tuple(shop: Any) -> None:
    later = shop.add.signature((1, 2), countdown=60).delay()
    assert (later.job.payload["args"], later.job.status) == ([1, 2], "scheduled")
    assert shop.add.subtask((1,), {"y": 2}).delay().job.payload["kwargs"] == {"y": 2}


def test_a_call_that_runs_here(shop: Any) -> None:
    assert shop.add.apply((1, 2)).get() == shop.add.run(1, 2) == 3
    failed = shop.wrong.apply()
    assert (failed.state, failed.failed(), type(failed.result)) == ("FAILURE", True, ValueError)
    with pytest.raises(ValueError, match="never retried"):
        failed.get()
    assert shop.app.jobs.list().jobs == []


def test_what_is_retried_by_itself(shop: Any) -> None:
    options = {"autoretry_for": (OSError,), "dont_autoretry_for": (FileNotFoundError,)}

    def reads(missing: bool) -> None:
        raise FileNotFoundError if missing else ConnectionError

    task = shop.app.task(**options, retry_kwargs={"max_retries": 1, "countdown": 0})(reads)
    missing, cut = task.delay(True), task.delay(False)
    shop.app.jobs.drain()
    shop.app.jobs.drain()
    assert (missing.job.attempt, cut.job.attempt, cut.state) == (1, 2, "FAILURE")


def test_wrong_arguments_are_refused_where_they_are_given(shop: Any) -> None:
    for signature in (shop.add.s(1), shop.charge.s(), shop.add.s(1, 2) | shop.double.s(3)):
        with pytest.raises(InvalidArguments, match="argument"):
            signature.delay()
    assert shop.app.jobs.list().jobs == []
