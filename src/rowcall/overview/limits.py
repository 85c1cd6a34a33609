"""Limits in words, for the command line and the dashboard."""

from __future__ import annotations

from rowcall.base.text import duration
from rowcall.domain.limits import LimitInfo, Numbers, numbers_text


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


def _numbers(concurrency: int | None, rate: int | None, per: float | None) -> Numbers:
    return Numbers(concurrency, rate, None if per is None else round(per * 1000))
