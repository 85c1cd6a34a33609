from __future__ import annotations

from datetime import timedelta

import pytest

from rowcall import InvalidOption
from rowcall.integrations.celery.beat import beat_entries, crontab, refused_of_entry, schedule

ZONE = "UTC"


def test_entries() -> None:
    (entry,) = beat_entries({"x": {"task": "t", "schedule": timedelta(seconds=5), "kwargs": {"a": 1}}}, ZONE)
    assert (entry.cron, entry.every, entry.arguments) == (None, timedelta(seconds=5), {"args": [], "kwargs": {"a": 1}})


def test_wrong_entries() -> None:
    with pytest.raises(InvalidOption, match="schedule must be crontab"):
        beat_entries({"x": {"task": "x", "schedule": None}}, ZONE)
    with pytest.raises(InvalidOption, match="task must be the name"):
        beat_entries({"x": {"schedule": crontab()}}, ZONE)
    with pytest.raises(InvalidOption, match="args must be a list"):
        beat_entries({"x": {"task": "x", "schedule": 5, "args": 3}}, ZONE)
    with pytest.raises(InvalidOption, match="options must be a dict"):
        beat_entries({"x": {"task": "x", "schedule": 5, "options": 3}}, ZONE)
    (entry,) = beat_entries({"x": {"task": "x", "schedule": 5, "options": {"expires": 15, "queue": "slow"}}}, ZONE)
    assert refused_of_entry(entry) == ["expires: a periodic task has only queue and priority"]
    with pytest.raises(InvalidOption, match="x: cron: '0 25"):
        beat_entries({"x": {"task": "x", "schedule": crontab(minute=0, hour=25)}}, ZONE)


def test_times() -> None:
    assert crontab(minute={30, 0}, hour="*/3", day_of_month="1") == "0,30 */3 1 * *"
    assert schedule(run_every=30) == 30
    with pytest.raises(InvalidOption, match="day_of_week and day_of_month"):
        crontab(minute=0, hour=0, day_of_week="mon", day_of_month="1-7")
