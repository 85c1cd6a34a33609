from __future__ import annotations

import pytest

from rowcall.compat.celery import Celery


def test_jobs_are_revoked(app: Celery) -> None:
    @app.task
    def note() -> None: ...

    first, second, ended = note.delay(), note.delay(), note.delay()
    app.jobs.cancel(int(ended.id))
    app.control.revoke(first.id, terminate=True, signal="SIGKILL")
    app.control.revoke([second.id, ended.id, "999"])
    assert [result.state for result in (first, second, ended)] == ["REVOKED"] * 3


def test_other_commands_are_refused(app: Celery) -> None:
    with pytest.raises(AttributeError, match=r"control\.purge is not there in Rowcall; use jobs"):
        app.control.purge()
    with pytest.raises(AttributeError, match="from-celery"):
        app.control.broadcast("x")
