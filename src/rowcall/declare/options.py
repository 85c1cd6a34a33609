"""The options of a task and of an enqueue, checked where they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, Required, TypedDict, TypeVar

import msgspec

from rowcall.base.times import milliseconds_of
from rowcall.declare.isolation import checked_isolation, checked_memory_limit
from rowcall.domain.config import name_complaint, queue_complaint
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.job import Chain, Job
from rowcall.domain.limits import Limit, checked_limits
from rowcall.domain.retention import DAY_SECONDS, Retention
from rowcall.domain.retry import Backoff, RetryPolicy, backoff_to_text
from rowcall.store.dialect import Awaited, KeyOf, NewJob
from rowcall.store.flows.contract import Blocker, Unique

T = TypeVar("T")

DEFAULT_MAX_ATTEMPTS = 5
MOST_TAGS = 50
MOST_IN_BATCH = 1000
DEFAULT_BATCH_WAIT_SECONDS = 0.1
SHORTEST_TIMEOUT_SECONDS = 0.001
_EARLIEST = datetime(1973, 3, 4, tzinfo=UTC)

LONGEST_KEY = 512
LONGEST_KEY_BYTES = 1800  # with the name of its task, an index of PostgreSQL takes 2,704
_SCOPES = ("active", "any")
_ON_DUPLICATE = ("return", "replace", "raise")
_ON_BLOCKER_FAILURE = ("fail", "run", "wait")


class Common(TypedDict, total=False):
    queue: str
    priority: int
    delay: float | timedelta
    max_attempts: int
    timeout: float | timedelta
    expires_in: float | timedelta
    tags: Iterable[str]
    key: str | KeyOf
    key_scope: Literal["active", "any"]
    key_window: float | timedelta
    on_duplicate: Literal["return", "replace", "raise"]
    on_blocker_failure: Literal["fail", "run", "wait"]
    limit: Limit | Sequence[Limit]


class TaskOptions(Common, total=False):
    """The options of `@jobs.task(...)`."""

    name: str
    aliases: Iterable[str]
    retry: RetryPolicy
    retention: Retention
    isolation: Literal["thread", "process"]
    memory_limit: int | str


class BatchOptions(TaskOptions, total=False):
    """The options of `@jobs.task(batch=...)`, whose function takes a list."""

    batch: Required[int]
    batch_wait: float | timedelta


class EnqueueOptions(Common, total=False):
    """The options of `task.using(...)` and `jobs.enqueue(...)`."""

    retry: Backoff
    run_at: datetime
    expires_at: datetime
    after: Job | Chain | int | Iterable[Job | Chain | int]
    connection: object


_COMMON = set(Common.__annotations__)
TASK_OPTIONS = _COMMON | {"name", "aliases", "retry", "retention", "isolation", "memory_limit", "batch", "batch_wait"}
ENQUEUE_OPTIONS = _COMMON | {"retry", "run_at", "expires_at", "after", "connection"}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Checked options; None means not given."""

    name: str | None = None
    aliases: tuple[str, ...] = ()
    queue: str | None = None
    priority: int | None = None
    delay_ms: int | None = None
    run_at_ms: int | None = None
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None
    expires_in_ms: int | None = None
    expires_at_ms: int | None = None
    tags: tuple[str, ...] | None = None
    connection: object = None
    retention: Retention | None = None
    isolated: bool = False
    memory_limit: int | None = None
    batch: int | None = None
    batch_wait_seconds: float = DEFAULT_BATCH_WAIT_SECONDS
    key: str | None = None
    key_of: KeyOf | None = None
    key_scope: str | None = None
    key_window_ms: int | None = None
    on_duplicate: str | None = None
    after: tuple[Awaited, ...] = ()
    on_blocker_failure: str | None = None
    limits: tuple[Limit, ...] | None = None


def checked(given: Mapping[str, object], allowed: set[str]) -> Options:
    """The options given, or `InvalidOption` for the first that is unknown or does not fit."""
    for option in given:
        if option not in allowed:
            elsewhere = option in TASK_OPTIONS | ENQUEUE_OPTIONS
            raise InvalidOption(
                option,
                ("does not go here" if elsewhere else "is no option") + f"; there are {', '.join(sorted(allowed))}",
            )
    for one, other in (("delay", "run_at"), ("expires_in", "expires_at")):
        if given.get(one) is not None and given.get(other) is not None:
            raise InvalidOption(other, f"cannot be given together with {one}")
    return Options(
        name=_name("name", given.get("name")),
        aliases=_aliases(given.get("aliases")),
        queue=_name("queue", given.get("queue"), queue_complaint),
        priority=_whole("priority", given.get("priority"), -(2**31), 2**31 - 1),
        delay_ms=_milliseconds("delay", given.get("delay")),
        run_at_ms=_moment("run_at", given.get("run_at")),
        max_attempts=_whole("max_attempts", given.get("max_attempts"), 1, 1_000_000),
        retry=_retry(given.get("retry"), callables="name" in allowed),
        timeout_seconds=_timeout(given.get("timeout")),
        expires_in_ms=_milliseconds("expires_in", given.get("expires_in")),
        expires_at_ms=_moment("expires_at", given.get("expires_at")),
        tags=_tags(given.get("tags")),
        connection=given.get("connection"),
        retention=_retention(given.get("retention")),
        isolated=checked_isolation(given.get("isolation")),
        memory_limit=checked_memory_limit(given.get("memory_limit"), given.get("isolation")),
        batch=_batch(given),
        batch_wait_seconds=_batch_wait(given),
        key=_key(given.get("key")),
        key_of=_key_of(given.get("key")),
        key_scope=_one_of("key_scope", given.get("key_scope"), _SCOPES),
        key_window_ms=_window(given.get("key_window")),
        on_duplicate=_one_of("on_duplicate", given.get("on_duplicate"), _ON_DUPLICATE),
        after=_after(given.get("after")),
        on_blocker_failure=_one_of("on_blocker_failure", given.get("on_blocker_failure"), _ON_BLOCKER_FAILURE),
        limits=checked_limits(given.get("limit")),
    )


def new_job(task: str, declared: Options, given: Options, default_queue: str) -> NewJob:
    """What is written of a job: what was given, else what its task declares, else the defaults."""
    run_at_given = given.run_at_ms is not None
    expiry_given = given.expires_at_ms is not None
    tags = [*dict.fromkeys([*(declared.tags or ()), *(given.tags or ())])]
    unique = _unique(declared, given)
    own_key = given.key is not None or given.key_of is not None
    return NewJob(
        type=task,
        queue=_first(given.queue, declared.queue, default_queue),
        priority=_first(given.priority, declared.priority, 0),
        max_attempts=_first(given.max_attempts, declared.max_attempts, DEFAULT_MAX_ATTEMPTS),
        run_at_ms=given.run_at_ms,
        delay_ms=0 if run_at_given else _first(given.delay_ms, declared.delay_ms, 0),
        expires_at_ms=given.expires_at_ms,
        expires_in_ms=None if expiry_given else _given(given.expires_in_ms, declared.expires_in_ms),
        timeout_seconds=given.timeout_seconds,
        retry=backoff_to_text(given.retry) if isinstance(given.retry, Backoff) else None,
        tags=msgspec.json.encode(tags).decode() if tags else None,
        key=given.key if own_key else declared.key,
        key_of=given.key_of if own_key else declared.key_of,
        unique=unique,
        after=given.after,
        on_blocker_failure=_first(given.on_blocker_failure, declared.on_blocker_failure, "fail"),
    )


def _unique(declared: Options, given: Options) -> Unique | None:
    """What makes a duplicate, if there is a key at all."""
    scope = _given(given.key_scope, declared.key_scope)
    window_ms = _given(given.key_window_ms, declared.key_window_ms)
    on_duplicate = _given(given.on_duplicate, declared.on_duplicate)
    if all(key is None for key in (given.key, given.key_of, declared.key, declared.key_of)):
        for option, value in (("key_scope", scope), ("key_window", window_ms), ("on_duplicate", on_duplicate)):
            if value is not None:
                raise InvalidOption(option, "says what a duplicate is, and there is no key: give key=…, too")
        return None
    if on_duplicate == "replace" and given.after:
        raise InvalidOption("after", 'cannot go with on_duplicate="replace": what waits already keeps its blockers')
    return Unique(scope=scope or "active", window_ms=window_ms, on_duplicate=on_duplicate or "return")


def _given(given: T | None, declared: T | None) -> T | None:
    return given if given is not None else declared


def _first(given: T | None, declared: T | None, default: T) -> T:
    return given if given is not None else declared if declared is not None else default


def _name(option: str, value: object, complaint_of: Callable[[object], str | None] = name_complaint) -> str | None:
    if value is None:
        return None
    if complaint := complaint_of(value):
        raise InvalidOption(option, complaint)
    return str(value)


def _aliases(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption("aliases", f"must be a list of names, got {value!r}")
    aliases = tuple(value)
    for alias in aliases:
        if complaint := name_complaint(alias):
            raise InvalidOption("aliases", f"{alias!r}: {complaint}")
    if len(set(aliases)) < len(aliases):
        raise InvalidOption("aliases", f"must differ from each other, got {list(aliases)!r}")
    return aliases


def _one_of(option: str, value: object, known: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if value not in known:
        raise InvalidOption(option, f"wants {', '.join(known[:-1])} or {known[-1]}, not {value!r}")
    return str(value)


def _key(value: object) -> str | None:
    if value is None or callable(value):
        return None
    if complaint := key_complaint(value):
        raise InvalidOption("key", complaint)
    return str(value)


def key_complaint(value: object) -> str | None:
    """What is wrong with a key, if anything."""
    if complaint := name_complaint(value, LONGEST_KEY):
        return complaint
    size = len(str(value).encode())
    return f"wants {LONGEST_KEY_BYTES} bytes at most, not {size}" if size > LONGEST_KEY_BYTES else None


def _key_of(value: object) -> KeyOf | None:
    return value if callable(value) else None


def _window(value: object) -> int | None:
    window_ms = _milliseconds("key_window", value)
    if window_ms is not None and window_ms < 1:
        raise InvalidOption("key_window", f"wants more than 0 seconds, not {value!r}")
    return window_ms


def _after(value: object) -> tuple[Awaited, ...]:
    if value is None:
        return ()
    return tuple({awaited.blocker: awaited for awaited in map(awaited_of, one_or_more(value))}.values())


def one_or_more(value: object) -> list[object]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]


def awaited_of(value: object) -> Awaited:
    match value:
        case Job(id=job_id, type=kind, created_at=created_at):
            return Awaited(Blocker(job_id), kind, milliseconds_of(created_at))
        case Chain(id=chain_id, type=kind, created_at=created_at):
            return Awaited(Blocker(chain_id, of_chain=True), kind, milliseconds_of(created_at))
        case int() if not isinstance(value, bool) and 0 < value < 2**63:
            return Awaited(Blocker(value))
    raise InvalidOption("after", f"wants jobs, chains or ids of jobs, not {value!r}")


def _whole(option: str, value: object, lowest: int, highest: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise InvalidOption(option, f"wants a whole number from {lowest} to {highest}, not {value!r}")
    return value


def _milliseconds(option: str, value: object) -> int | None:
    return None if value is None else round(seconds_of(option, value) * 1000)  # type: ignore[arg-type]


def _timeout(value: object) -> float | None:
    if value is None:
        return None
    seconds = seconds_of("timeout", value)  # type: ignore[arg-type]
    if seconds < SHORTEST_TIMEOUT_SECONDS:
        raise InvalidOption("timeout", f"wants at least {SHORTEST_TIMEOUT_SECONDS} seconds, not {value!r}")
    return seconds


def _moment(option: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidOption(option, f"wants a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidOption(
            option, f"wants a datetime with a time zone, such as datetime.now(UTC); {value!r} could be any zone's"
        )
    if value < _EARLIEST:
        raise InvalidOption(option, f"wants a time after {_EARLIEST:%Y-%m-%d}, not {value}")
    return milliseconds_of(value)


def _retry(value: object, *, callables: bool) -> RetryPolicy | None:
    if value is None or isinstance(value, Backoff):
        return value
    if callables and callable(value):
        return value
    wanted = "a Backoff, or a callable of (attempt, error)" if callables else "a Backoff"
    hint = "" if callables or not callable(value) else "; a callable belongs in task(retry=…), as a row cannot hold it"
    raise InvalidOption("retry", f"wants {wanted}, not {value!r}{hint}")


def _retention(value: object) -> Retention | None:
    if value is not None and (not isinstance(value, Retention) or value.queues):
        raise InvalidOption("retention", f"wants a Retention without queues, not {value!r}")
    return value


def _batch(given: Mapping[str, object]) -> int | None:
    batch = _whole("batch", given.get("batch"), 1, MOST_IN_BATCH)
    if batch is not None and given.get("isolation") == "process":
        raise InvalidOption("batch", "cannot be given together with isolation='process'")
    return batch


def _batch_wait(given: Mapping[str, object]) -> float:
    if given.get("batch_wait") is None:
        return DEFAULT_BATCH_WAIT_SECONDS
    if given.get("batch") is None:
        raise InvalidOption("batch_wait", "wants batch=…, the number of jobs that one call takes at most")
    seconds = seconds_of("batch_wait", given["batch_wait"])  # type: ignore[arg-type]
    if seconds > DAY_SECONDS:
        raise InvalidOption("batch_wait", f"wants a day at most, not {given['batch_wait']!r}")
    return seconds


def _tags(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption("tags", f"wants a list of texts, not {value!r}")
    tags = tuple(value)
    for tag in tags:
        if complaint := name_complaint(tag):
            raise InvalidOption("tags", f"{tag!r}: {complaint}")
    if len(tags) > MOST_TAGS:
        raise InvalidOption("tags", f"wants {MOST_TAGS} at most, not {len(tags)}")
    return tags
