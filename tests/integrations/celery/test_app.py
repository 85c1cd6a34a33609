"""A Celery app, moved over by changing its imports only: see `before.txt`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rowcall import InvalidOption, Rowcall, UnknownTask
from rowcall.compat.celery import Celery, Task, crontab, shared_task
from tests.support import PythonProcess


def test_schedules_and_names(shop: Any) -> None:
    jobs: Rowcall = shop.app.jobs
    found = {schedule.name: schedule for schedule in jobs.schedules(unwritten=True)}
    assert (found["nightly"].cron, found["pulse"].every) == ("0 3 * * *", timedelta(days=30))
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


def test_all_refused_options_are_in_one_error(app: Celery) -> None:
    class Old(Task):
        soft_time_limit = 5

    @app.task(base=Old, name="charge", max_retrys=3)
    def charge() -> None: ...

    @shared_task(name="mail", task_id="x", ignore_result=True)
    def mail() -> None: ...

    app.conf.task_routes = {"mail*": {"queue": "mail", "exchange": "media"}}
    app.conf.beat_schedule = {"nightly": {"task": "mail", "schedule": 5, "options": {"expires": 15, "queue": "slow"}}}
    ways = [charge.delay, charge.apply, mail.s().delay, app.jobs.drain, lambda: app.send_task("elsewhere")]
    for way in ways:
        with pytest.raises(InvalidOption, match="some options have no equivalent in Rowcall"):
            way()
    with pytest.raises(InvalidOption) as refused:
        app.check_options()
    assert [line.partition(" (")[0] for line in str(refused.value).splitlines()[1:]] == [
        "  task_routes, mail*: exchange: use queue=…",
        "  beat_schedule, nightly: expires: a periodic task has only queue and priority",
        "  charge: soft_time_limit: use time_limit=…, and let a long task look at rowcall.current().cancelled",
        "  charge: unknown option 'max_retrys'",
        "  mail: task_id: ids are numbers; a Rowcall task with key=… makes calls unique",
    ]
    assert app.jobs.list().jobs == []
    assert charge() is None  # a call of the function needs no options


def test_what_is_declared_late(app: Celery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    (tmp_path / "lonely.py").write_text(
        "from rowcall.compat.celery import current_app\n\n@current_app.task\ndef one(): ...\n"
    )
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "work.py").write_text(
        "from rowcall.compat.celery import shared_task\n\n@shared_task\ndef two(): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    app.conf.include = ["lonely"]
    app.autodiscover_tasks(lambda: ["pack", "json"], related_name="work")
    app.conf.beat_schedule = {"typo": {"task": "shop.no_such", "schedule": 5}}
    app.conf.timezone = "Europe/Berlin"

    @app.on_after_configure.connect
    def set_up(sender: Celery, **_: object) -> None:
        sender.add_periodic_task(30.0, pulse.s(), name="pulse")
        sender.add_periodic_task(crontab(minute=0, hour=3), pulse.s(), name="nightly")

    @app.task
    def pulse() -> None: ...

    with app.jobs.worker():
        found = {schedule.name: schedule for schedule in app.jobs.schedules()}
        results = [app.send_task("lonely.one"), app.send_task("pack.work.two")]
        assert [result.get(timeout=20) for result in results] == [None, None]
    assert set(found) == {"pulse", "nightly"}
    assert found["nightly"].tz == "Europe/Berlin"
    assert "beat_schedule: typo names a task that is not declared: shop.no_such" in caplog.text


def test_a_handler_that_fails_ends_the_worker(app: Celery) -> None:
    def set_up(sender: Celery) -> None:
        raise KeyError("settings")

    app.on_after_finalize.connect(weak=False)(set_up)
    for _ in range(2):
        with pytest.raises(KeyError, match="settings"):
            app.jobs.drain()


def test_a_program_that_is_its_own_worker(tmp_path: Path) -> None:
    """Its tasks have the names under which other processes import them."""
    (tmp_path / "shop.py").write_text(
        "from rowcall.compat.celery import Celery\n"
        "app = Celery('shop', broker='sqlite:///shop.db')\n"
        "@app.task\ndef stop():\n    import os, signal\n    os.kill(os.getpid(), signal.SIGTERM)\n"
        "if __name__ == '__main__':\n    app.start()\n"
    )
    with Celery("other", broker=f"sqlite:///{tmp_path}/shop.db") as other:
        result = other.send_task("shop.stop")
        with PythonProcess("shop.py", cwd=str(tmp_path)) as process:
            assert process.wait(within=60) == 0, process.output
        assert result.state == "SUCCESS"
