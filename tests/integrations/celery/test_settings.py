from __future__ import annotations

import pytest

from rowcall.compat.celery import Celery


def test_a_broker_and_settings_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("shop", broker="redis://:secret@localhost/0")
    app.conf.worker_prefetch_multiplier = 4
    assert "is not used: Rowcall() opens $ROWCALL_URL" in caplog.text
    assert "secret" not in caplog.text
    assert "worker_prefetch_multiplier of Celery has no effect" in caplog.text
