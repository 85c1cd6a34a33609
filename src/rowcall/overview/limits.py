"""Limits in words, for the command line and the dashboard."""

from __future__ import annotations

from rowcall.base.text import duration
from rowcall.domain.limits import LimitInfo, Numbers, numbers_text
from rowcall.overview.formats import to_the_second


def allowed_text(limit: LimitInfo) -> str:
    """Return the numbers that count."""
    return numbers_text(_numbers(limit.concurrency, limit.rate, limit.per))


def declared_text(limit: LimitInfo) -> str:
    return numbers_text(_numbers(limit.declared_concurrency, limit.declared_rate, limit.declared_per))


def used_text(limit: LimitInfo) -> str:
    """
    >>> used_text(LimitInfo(name="api", rate=100, per=60.0, running=3, started=40))
    '3 run, 40 started in 1 min'
    """
    started = "" if limit.rate is None else f", {limit.started:,} started in {duration(limit.per)}"
    return f"{limit.running:,} {'runs' if limit.running == 1 else 'run'}{started}"


def hold_text(limit: LimitInfo) -> str:
    """Return what holds it, if anything.

    >>> from rowcall.base.times import time_of
    >>> hold_text(LimitInfo(name="api", held_until=time_of(30_000), held_by=17))
    'held until 1970-01-01 00:00:30 UTC (by job 17)'
    """
    if limit.is_open and limit.held_by is None:
        if limit.held_until is None:
            return "breaker open, one job may try"
        return f"breaker open until {to_the_second(limit.held_until)}"
    if limit.held_until is None:
        return ""
    because = f"{limit.held_reason}, " if limit.held_reason else ""
    return f"held until {to_the_second(limit.held_until)} ({because}by job {limit.held_by})"


def _numbers(concurrency: int | None, rate: int | None, per: float | None) -> Numbers:
    return Numbers(concurrency, rate, None if per is None else round(per * 1000))
