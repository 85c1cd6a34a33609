from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.compat.celery import Celery


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
