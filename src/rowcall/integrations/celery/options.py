"""The options of Celery's tasks and calls, and their equivalents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import msgspec

from rowcall.declare.option_table import EnqueueOptions
from rowcall.domain.errors import InvalidOption, unknown_option
from rowcall.domain.limits import LONGEST_NAME, Limit

DEFAULT_MAX_RETRIES = 3
DEFAULT_RETRY_SECONDS = 180
LONGEST_BACKOFF_SECONDS = 600
PERIODS = {"s": 1, "m": 60, "h": 3600}

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
    rate_limit: str | float | None = None


def task_settings(options: Mapping[str, object]) -> TaskSettings:
    """Return the options that have an effect."""
    known = TaskSettings.__struct_fields__
    values = {name: value for name, value in options.items() if name in known and value is not None}
    if "max_retries" in options:  # None has a meaning: no limit
        values["max_retries"] = options["max_retries"]
    return TaskSettings(**values)  # type: ignore[arg-type]


def refused_options(options: Mapping[str, object]) -> list[str]:
    """Return the options of a task that are refused, with what to do instead."""
    known = {*TaskSettings.__struct_fields__, *NEEDLESS}
    refused = [name for name, value in options.items() if name not in known and value is not None]
    return [_advised(name) if name in ADVICE else unknown_option(name, known).problem for name in refused]


def limit_of(task: str, rate_limit: object) -> Limit | None:
    """Return Celery's `rate_limit` as a limit: `"10/m"`, or a number per second. 0 is no limit.

    >>> limit_of("mail", "100/h"), limit_of("mail", 2.5).rate, limit_of("mail", "0/m")
    (Limit(name='mail', concurrency=None, rate=100, per=3600.0, by=None, breaker=None, units=None), 5, None)
    """
    number, _, unit = str(rate_limit).partition("/")
    try:
        rate = Fraction(number).limit_denominator(100)
        seconds = PERIODS[unit or "s"]
    except (ValueError, ZeroDivisionError, KeyError):
        raise InvalidOption(
            "rate_limit", f"must be a number per second, or a text such as '10/m', got {rate_limit!r}"
        ) from None
    if not rate:
        return None
    return Limit(task[-LONGEST_NAME:], rate=rate.numerator, per=float(seconds * rate.denominator))


def options_of_class(kind: type, root: type) -> dict[str, object]:
    """Return the options that a subclass of `root` has as attributes, such as `autoretry_for`."""
    known = {*TaskSettings.__struct_fields__, *ADVICE} - {"base"}
    classes = kind.__mro__[: kind.__mro__.index(root)]
    return {name: getattr(kind, name) for one in classes for name in vars(one) if name in known}


def our_options(celery_options: Mapping[str, object]) -> EnqueueOptions:
    """Return the options of Rowcall for those of `apply_async`. `InvalidOption` if some have no equivalent."""
    if refused := refused_of_call(celery_options):
        raise refusal(refused)
    options: dict[str, object] = {}
    for name, value in celery_options.items():
        match name, value:
            case _, None:
                continue
            case "countdown", _:
                options["delay"] = value
            case "eta", datetime():
                options["run_at"] = aware(value)
            case "expires", datetime():
                options["expires_at"] = aware(value)
            case "expires", _:
                options["expires_in"] = value
            case "time_limit", _:
                options["timeout"] = value
            case "connection" | "queue" | "priority", _:
                options[name] = value
    return options  # type: ignore[return-value]


def refused_of_call(given: Mapping[str, object]) -> list[str]:
    known = {"countdown", "eta", "expires", "time_limit", "connection", "queue", "priority", *NEEDLESS_OF_CALLS}
    return [_advised(name) for name, value in given.items() if name not in known and value is not None]


def refusal(lines: Iterable[str]) -> InvalidOption:
    """Return one error about all refused options."""
    text = "\n  ".join(["some options have no equivalent in Rowcall, see docs/from-celery.md:", *lines])
    return InvalidOption("options", text, message=text)


def _advised(name: str) -> str:
    return f"{name}: {ADVICE[name]}" if name in ADVICE else name


def aware(moment: datetime) -> datetime:
    """Celery takes a time without a zone as UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
