from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.compat import celery
from rowcall.compat.celery import AsyncResult, Celery
from rowcall.integrations.celery.current import current_app


def test_the_app_that_was_created_last() -> None:
    with pytest.raises(InvalidOption, match="app is missing"):
        AsyncResult(1)
    assert not hasattr(celery.current_app, "main")
    Celery("first", broker="sqlite:///:memory:")
    last = Celery("last", broker="sqlite:///:memory:")
    assert current_app() is last
    assert (celery.current_app.main, bool(celery.current_app)) == ("last", True)
    with pytest.raises(AttributeError, match="an app has no 'pool'"):
        celery.current_app.pool  # noqa: B018


def test_the_task_that_runs(app: Celery) -> None:
    @app.task
    def running() -> object:
        assert app.current_task is running
        return celery.current_task.request.task

    result = running.delay()
    app.jobs.drain(raise_errors=True)
    assert result.get(timeout=1) == running.name
    assert (bool(celery.current_task), app.current_task, repr(celery.current_task)) == (False, None, "<nothing yet>")
