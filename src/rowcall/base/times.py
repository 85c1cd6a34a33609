"""Times as whole milliseconds since 1970, and as aware datetimes in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 253402300799999
_MILLISECOND = timedelta(milliseconds=1)
_EXACT_BEFORE_MS = 2**32 * 1000  # below this, a float of seconds is exact to half a microsecond


def time_of(at_ms: int) -> datetime:
    """
    >>> time_of(1_000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    if 0 <= at_ms < _EXACT_BEFORE_MS:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    # plain SQL may have written a year that datetime does not have
    seconds, milliseconds = divmod(min(max(at_ms, 0), _LATEST_MS), 1000)
    return EPOCH + timedelta(0, seconds, milliseconds * 1000)  # positional arguments take half the time of keywords


def time_or_none(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else time_of(at_ms)


def milliseconds_of(at: datetime) -> int:
    return (at - EPOCH) // _MILLISECOND
