"""A Celery app of eleven tasks, moved over by changing its imports only."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.compat.celery import Celery, shared_task


def test_schedules_and_names(shop: Any) -> None:
    jobs: Rowcall = shop.app.jobs
    found = {schedule.name: schedule for schedule in jobs.schedules(unwritten=True)}
    assert (found["nightly"].cron, found["pulse"].every) == ("0 3 * * *", timedelta(seconds=30))
    sent = shop.app.send_task("shop.clean_up", args=[5])
    jobs.drain()
    assert sent.get(timeout=1) == 5
    assert shop.app.send_task("elsewhere", kwargs={"a": 1}).job.payload == {"args": [], "kwargs": {"a": 1}}


def test_a_shared_task_without_an_app() -> None:
    @shared_task
    def early() -> None: ...

    with pytest.raises(InvalidOption, match="app is missing"):
        early.delay()
    Celery("shop", broker="sqlite:///:memory:")
    assert early.name.endswith("early")


def test_an_unknown_option() -> None:
    app = Celery("shop", broker="sqlite:///:memory:")
    with pytest.raises(InvalidOption, match=r"unknown option 'max_retrys' .did you mean 'max_retries'"):
        app.task(max_retrys=3)
