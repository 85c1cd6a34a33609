from __future__ import annotations

import re

import pytest

from rowcall import InvalidOption
from rowcall.compat.celery import Celery
from rowcall.integrations.celery.conf import routes_of


def test_a_broker_and_settings_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("shop", broker="redis://:secret@localhost/0")
    app.conf.worker_prefetch_multiplier = 4
    assert "is not used: Rowcall() opens $ROWCALL_URL" in caplog.text
    assert "secret" not in caplog.text
    assert "worker_prefetch_multiplier of Celery has no effect" in caplog.text


def test_a_wrong_value_is_not_kept() -> None:
    app = Celery("shop", broker="sqlite:///:memory:")
    with pytest.raises(InvalidOption, match="task must be the name"):
        app.conf.beat_schedule = {"x": {"schedule": 5}}
    assert app.conf.beat_schedule == {}


def test_reading_and_old_names(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("shop", broker="sqlite:///:memory:")
    app.conf.update({"CELERY_ALWAYS_EAGER": True, "task_serializer": "json"}, timezone=None)
    app.conf["result_expires"] = 60
    assert (app.conf.task_always_eager, app.conf.timezone, app.conf["result_expires"]) == (True, "UTC", 60)
    assert ("task_default_queue" in app.conf, "colour" in app.conf, app.conf.get("colour", 7)) == (True, False, 7)
    with pytest.raises(KeyError):
        app.conf["colour"]
    assert [record.message for record in caplog.records] == [
        "the setting result_expires of Celery has no effect in Rowcall"
    ]


def test_routes() -> None:
    routes = ({"mail.*": "mail"}, [("*.slow", {"queue": "slow", "priority": 3}), (re.compile("a|b"), {"queue": "ab"})])
    found = {
        task: next((route.options for route in routes_of(routes) if route.matches(task)), None)
        for task in ("mail.send", "x.slow", "banana", "x")
    }
    slow = {"queue": "slow", "priority": 3}
    assert found == {"mail.send": {"queue": "mail"}, "x.slow": slow, "banana": {"queue": "ab"}, "x": None}
    app = Celery("shop", broker="sqlite:///:memory:", task_default_queue="rest", task_time_limit=5)
    for wrong in (print, {"x": 3}):
        with pytest.raises(InvalidOption, match="task_routes"):
            app.conf.task_routes = wrong
    with pytest.raises(InvalidOption, match="imports must be a list of modules"):
        app.conf.imports = "shop.tasks"
    app.conf.task_routes = {"*": {"queue": "all"}}
    own, routed = app.task(queue="own")(print), app.task(name="routed")(print)
    assert [task.delay().job.queue for task in (own, routed)] == ["own", "all"]
    app.conf.task_routes = None
    assert routed.delay().job.queue == "rest"
