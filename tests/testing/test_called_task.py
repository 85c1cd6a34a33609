"""Assertions about names, and about tasks of other frameworks. Those of Django are in tests/integrations/django."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from rowcall import InvalidOption
from rowcall.compat.celery import Celery, shared_task
from rowcall.integrations.celery import app as celery_app
from rowcall.integrations.celery import current
from rowcall.testing import assert_enqueued, assert_not_enqueued, clean_queue
from tests.testing.queues import jobs, send_email


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with clean_queue(jobs):
        yield


def test_a_name() -> None:
    job = send_email.enqueue("a")
    assert [found.id for found in assert_enqueued("send_email", to="a", subject="hi")] == [job.id]
    with pytest.raises(InvalidOption, match="'send_email' has no argument 'too'"):
        assert_not_enqueued("send_email", too="a")
    with pytest.raises(AssertionError, match="no job was enqueued as elsewhere"):
        assert_enqueued("elsewhere", number=1)
    jobs.enqueue("elsewhere", {"number": 1})
    assert_enqueued("elsewhere", number=1)
    assert_not_enqueued("elsewhere", other=1)


def test_a_task_of_celery(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((celery_app, "_shared"), (celery_app, "_apps"), (current, "_apps")):
        monkeypatch.setattr(module, name, [])
    app, at = Celery("shop", broker="sqlite:///:memory:"), datetime(2030, 1, 1, tzinfo=UTC)

    @app.task(bind=True, name="charge")
    def charge(self: object, order_id: int, at: datetime, currency: str = "EUR") -> None: ...

    @shared_task(name="note")
    def note(*args: object, **fields: object) -> None: ...

    charge.delay(7, at=at)
    note.delay(1, colour="red")
    assert_enqueued(charge, order_id=7, at=at, currency="EUR")
    assert_enqueued(note, colour="red", args=(1,))
    assert_not_enqueued(note, colour="blue")
    with pytest.raises(InvalidOption, match="'charge' has no argument 'self'; it has order_id, at, currency"):
        assert_enqueued(charge, self=1)
