"""Schedules: when they run, in words, and what they ran last."""

from __future__ import annotations

from starlette.requests import Request

from rowcall.base.text import duration
from rowcall.domain.job import Schedule
from rowcall.domain.schedule import in_words
from rowcall.http.api import system
from rowcall.http.endpoint import Call
from rowcall.overview.liveness import time_now


async def schedule_list(call: Call, request: Request) -> dict[str, object]:
    schedules = (await system.list_schedules(call)).schedules
    return {
        "page": "schedules",
        "schedules": schedules,
        "words": {one.name: _timing(one) for one in schedules},
        "now": await call.read(time_now(call.queue)),
    }


def _timing(schedule: Schedule) -> str:
    if schedule.every is not None:
        return f"Every {duration(schedule.every.total_seconds())}"
    return in_words(schedule.cron or "")
