from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.compat.celery import AsyncResult, Celery
from rowcall.integrations.celery.current import current_app


def test_the_app_that_was_created_last() -> None:
    with pytest.raises(InvalidOption, match="app is missing"):
        AsyncResult(1)
    Celery("first", broker="sqlite:///:memory:")
    last = Celery("last", broker="sqlite:///:memory:")
    assert current_app() is last
