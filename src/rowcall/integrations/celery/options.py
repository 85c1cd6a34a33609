"""The options of Celery's tasks and calls, and their equivalents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from rowcall.declare.option_table import EnqueueOptions
from rowcall.domain.errors import InvalidOption, unknown_option

DEFAULT_MAX_RETRIES = 3
DEFAULT_RETRY_SECONDS = 180
LONGEST_BACKOFF_SECONDS = 600

# nothing to do for these: jobs are acknowledged when they are done, results are kept, payloads are JSON
NEEDLESS = frozenset(
    {
        *(
            "acks_late",
            "acks_on_failure_or_timeout",
            "compression",
            "ignore_result",
            "pydantic",
            "reject_on_worker_lost",
        ),
        *("send_events", "serializer", "store_errors_even_if_ignored", "store_eager_result", "throws"),
        *("trail", "track_started", "typing"),
    }
)
# and for these: an enqueue that fails raises
NEEDLESS_OF_CALLS = frozenset({"compression", "ignore_result", "retry", "retry_policy", "serializer"})

ADVICE = {
    "exchange": "use queue=…",
    "headers": "pass the values as arguments",
    "rate_limit": "declare a Rowcall task with limit=Limit(name, rate=…, per=…)",
    "routing_key": "use queue=…",
    "soft_time_limit": "use time_limit=…, and let a long task look at rowcall.current().cancelled",
    "task_id": "ids are numbers; a Rowcall task with key=… makes calls unique",
}


class TaskSettings(msgspec.Struct, kw_only=True):
    """The options of `@app.task(...)` that have an effect."""

    name: str | None = None
    bind: bool = False
    base: type | None = None
    queue: str | None = None
    priority: int | None = None
    max_retries: int | None = DEFAULT_MAX_RETRIES
    default_retry_delay: float = DEFAULT_RETRY_SECONDS
    autoretry_for: tuple[type[BaseException], ...] = ()
    dont_autoretry_for: tuple[type[BaseException], ...] = ()
    retry_kwargs: Mapping[str, Any] = {}
    retry_backoff: bool | float = False
    retry_backoff_max: float = LONGEST_BACKOFF_SECONDS
    retry_jitter: bool = True
    time_limit: float | None = None


def task_settings(options: Mapping[str, object]) -> TaskSettings:
    """Return the options that have an effect. `InvalidOption` for one that has no equivalent."""
    given = {name: value for name, value in options.items() if name not in NEEDLESS and value is not None}
    for name in given:
        if name in ADVICE:
            raise no_equivalent(name)
        if name not in TaskSettings.__struct_fields__:
            raise unknown_option(name, [*TaskSettings.__struct_fields__, *NEEDLESS])
    if "max_retries" in options:  # None has a meaning: no limit
        given["max_retries"] = options["max_retries"]
    return TaskSettings(**given)  # type: ignore[arg-type]


def options_of_class(kind: type, root: type) -> dict[str, object]:
    """Return the options that a subclass of `root` has as attributes, such as `autoretry_for`."""
    known = {*TaskSettings.__struct_fields__, *ADVICE} - {"base"}
    classes = kind.__mro__[: kind.__mro__.index(root)]
    return {name: getattr(kind, name) for one in classes for name in vars(one) if name in known}


def our_options(given: Mapping[str, object]) -> EnqueueOptions:
    """Return the options of Rowcall for those of `apply_async`. `InvalidOption` for one that has no equivalent."""
    found: dict[str, object] = {}
    for name, value in given.items():
        match name, value:
            case _, None:
                continue
            case "countdown", _:
                found["delay"] = value
            case "eta", datetime():
                found["run_at"] = aware(value)
            case "expires", datetime():
                found["expires_at"] = aware(value)
            case "expires", _:
                found["expires_in"] = value
            case "time_limit", _:
                found["timeout"] = value
            case "connection" | "queue" | "priority", _:
                found[name] = value
            case _ if name not in NEEDLESS_OF_CALLS:
                raise no_equivalent(name)
    return found  # type: ignore[return-value]


def no_equivalent(name: str) -> InvalidOption:
    advice = f": {ADVICE[name]}" if name in ADVICE else ""
    return InvalidOption(name, f"has no equivalent in Rowcall{advice}; see docs/from-celery.md")


def aware(moment: datetime) -> datetime:
    """Celery takes a time without a zone as UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
