from __future__ import annotations

from datetime import timedelta

import pytest

from rowcall import InvalidOption
from rowcall.integrations.celery.beat import beat_entries, crontab


def test_entries() -> None:
    (entry,) = beat_entries({"x": {"task": "t", "schedule": timedelta(seconds=5), "kwargs": {"a": 1}}})
    assert (entry.cron, entry.every, entry.arguments) == (None, timedelta(seconds=5), {"args": [], "kwargs": {"a": 1}})


def test_wrong_entries() -> None:
    with pytest.raises(InvalidOption, match="schedule must be crontab"):
        beat_entries({"x": {"task": "x", "schedule": None}})
    with pytest.raises(InvalidOption, match="task must be the name"):
        beat_entries({"x": {"schedule": crontab()}})
    with pytest.raises(InvalidOption, match="args must be a list"):
        beat_entries({"x": {"task": "x", "schedule": 5, "args": 3}})
    with pytest.raises(InvalidOption, match="options may have priority and queue"):
        beat_entries({"x": {"task": "x", "schedule": 5, "options": {"expires": 15}}})
