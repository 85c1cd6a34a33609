"""The bounds of what requests may have, for the OpenAPI document. The library checks them, with better errors."""

from __future__ import annotations

from typing import Any

from rowcall.base.text import CODE_LENGTH
from rowcall.declare.option_checks import LONGEST_KEY, MOST_TAGS, SHORTEST_TIMEOUT_SECONDS
from rowcall.domain.checks import LONGEST_NAME
from rowcall.domain.job import Status
from rowcall.domain.limits import MOST, SHORTEST_PERIOD_SECONDS
from rowcall.domain.push import LONGEST_TARGET
from rowcall.http.api.job_changes import MOST_IDS
from rowcall.http.api.jobs import LONGEST_PAGE, MOST_ENQUEUED
from rowcall.http.bodies import LARGEST_BODY
from rowcall.http.guard import LONGEST_QUERY
from rowcall.operations.job_actions import HIGHEST_RATE, LOWEST_RATE
from rowcall.operations.stats import LONGEST_WINDOW_SECONDS, MOST_SHOWN

Json = dict[str, Any]


def _whole(lowest: int, highest: int) -> Json:
    return {"minimum": lowest, "maximum": highest}


def _seconds(shortest: float = 0) -> Json:
    return {"minimum": shortest, "exclusiveMaximum": 1e10}


def _text(longest: int, shortest: int = 1) -> Json:
    return {"minLength": shortest, "maxLength": longest}


def _list(most: int, item: Json, fewest: int = 0) -> Json:
    return {"minItems": fewest, "maxItems": most, "items": item}


_NAME, _ID, _TIME = _text(LONGEST_NAME), _whole(1, 2**63 - 1), {"format": "date-time"}
_IN_A_BODY = _text(LARGEST_BODY, 0)  # no more fits into one
_BOUNDS: dict[str, Json] = {
    **dict.fromkeys(("name", "task", "type", "queue", "tag", "worker", "from_step"), _NAME),
    **dict.fromkeys(("id", "chain", "batch", "parent"), _ID),
    **dict.fromkeys(("run_at", "expires_at"), _TIME),
    **dict.fromkeys(("created_after", "created_before", "finished_after", "finished_before"), _TIME),
    **dict.fromkeys(("delay", "expires_in", "seconds"), _seconds()),
    **dict.fromkeys(("timeout", "key_window", "longest_delay", "deadline"), _seconds(SHORTEST_TIMEOUT_SECONDS)),
    **dict.fromkeys(("token", "reason", "error_detail"), _IN_A_BODY),
    **dict.fromkeys(("payload", "cursor"), _text(LONGEST_QUERY)),
    "key": _text(LONGEST_KEY),
    "error_code": _text(CODE_LENGTH + 1),
    "target": _text(LONGEST_TARGET),
    "priority": _whole(-(2**31), 2**31 - 1),
    "position": _whole(1, 2**31 - 1),
    "max_attempts": _whole(1, 1_000_000),
    "limit": _whole(1, 2**63 - 1),
    "rate": {"minimum": LOWEST_RATE, "maximum": HIGHEST_RATE},
    "window": {"minimum": 1, "maximum": LONGEST_WINDOW_SECONDS},
    "ids": _list(MOST_IDS, _ID),
    "after": _list(LARGEST_BODY // 2, _ID),
    "tags": _list(MOST_TAGS, _NAME),
    "jobs": _list(MOST_ENQUEUED, {}, 1),
    "kind": _list(LONGEST_QUERY, _text(LONGEST_QUERY)),
    "status": _list(LONGEST_QUERY, {"enum": [status.value for status in Status]}),
}
_OF_ONE = {
    ("ValuesQuery", "after"): _text(LONGEST_QUERY),
    ("JobsQuery", "limit"): _whole(1, LONGEST_PAGE),
    ("BatchesQuery", "limit"): _whole(1, LONGEST_PAGE),
    ("WaitsQuery", "limit"): _whole(1, LONGEST_PAGE),
    ("ErrorsQuery", "limit"): _whole(1, MOST_SHOWN),
    ("LimitQuery", "limit"): _whole(1, MOST_SHOWN),
    ("LimitInput", "concurrency"): _whole(1, MOST),
    ("LimitInput", "rate"): _whole(1, MOST),
    ("LimitInput", "per"): _seconds(SHORTEST_PERIOD_SECONDS),
    ("EnqueueBody", "task"): _text(LONGEST_NAME, 0),  # it is left out if there are `jobs`
}


def bound(owner: str, name: str, schema: Json) -> Json:
    """Return the schema of a field with its bounds. `owner` is the name of its class, or empty."""
    bounds = _OF_ONE.get((owner, name), _BOUNDS.get(name, {}))
    if "anyOf" in schema:
        return {**schema, "anyOf": [bound(owner, name, one) for one in schema["anyOf"]]}
    if schema.get("type") not in ("integer", "number", "string", "array"):
        return schema
    return {**schema, **bounds, **({"items": {**schema["items"], **bounds["items"]}} if "items" in bounds else {})}
