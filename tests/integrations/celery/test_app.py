"""A Celery app of eleven tasks, moved over by changing its imports only."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rowcall import InvalidOption, Rowcall, UnknownTask
from rowcall.compat.celery import Celery, shared_task


def test_schedules_and_names(shop: Any) -> None:
    jobs: Rowcall = shop.app.jobs
    found = {schedule.name: schedule for schedule in jobs.schedules(unwritten=True)}
    assert (found["nightly"].cron, found["pulse"].every) == ("0 3 * * *", timedelta(seconds=30))
    sent = shop.app.send_task("shop.clean_up", args=[5])
    jobs.drain()
    assert sent.get(timeout=1) == 5
    assert shop.app.send_task("elsewhere", kwargs={"a": 1}).job.payload == {"args": [], "kwargs": {"a": 1}}


def test_options_of_calls_by_name(shop: Any) -> None:
    later = shop.app.send_task("elsewhere", countdown=60, queue="slow").job
    assert (later.status, later.queue) == ("scheduled", "slow")
    assert shop.app.signature("shop.clean_up", (5,), priority=3).delay().job.priority == 3
    with pytest.raises(UnknownTask):
        shop.app.signature("shop.clean_upp")


def test_periodic_tasks_keep_their_queue(shop: Any) -> None:
    shop.app.add_periodic_task(60.0, shop.add.s(1, 2), name="sums", queue="slow")
    shop.app.add_periodic_task(60.0, shop.mail_receipt.s("ann"))
    jobs: Rowcall = shop.app.jobs
    jobs.drain()  # writes the schedules
    assert jobs.run_schedule_now("sums").queue == "slow"
    assert jobs.run_schedule_now("shop.mail_receipt('ann')").queue == "mail"


def test_settings_of_an_object(tmp_path: Path) -> None:
    app = Celery("shop")
    settings = SimpleNamespace(
        CELERY_BROKER_URL=f"sqlite:///{tmp_path}/own.db", CELERY_TIMEZONE="Asia/Tokyo", DEBUG=True
    )
    app.config_from_object(settings, namespace="CELERY")
    with app.jobs:
        app.jobs.migrate()
    assert (app.conf.timezone, (tmp_path / "own.db").exists()) == ("Asia/Tokyo", True)
    app.config_from_object("tests.integrations.celery.no_such_module", silent=True)
    with Rowcall("sqlite:///:memory:") as jobs:
        assert Celery("shop", broker="redis://", jobs=jobs).jobs is jobs


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
