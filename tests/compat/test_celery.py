from __future__ import annotations

import pytest

from rowcall.compat import celery


def test_names_that_are_there() -> None:
    assert all(hasattr(celery, name) for name in celery.__all__)
    assert celery.TimeoutError is TimeoutError


def test_names_that_are_not_there() -> None:
    for name, advice in {"task_failure": "use @jobs.on", "Queue": "queue='mail' is enough"}.items():
        with pytest.raises(ImportError, match=advice):
            getattr(celery, name)
    with pytest.raises(AttributeError, match="from-celery"):
        celery.no_such_name  # noqa: B018
