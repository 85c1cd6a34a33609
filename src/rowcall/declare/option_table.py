"""The options of a task and of an enqueue: one table, from which they are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Required, TypedDict, TypeVar

import msgspec

from rowcall.base.times import time_of
from rowcall.declare import option_checks as check
from rowcall.declare.middleware import AnyMiddleware, checked_several
from rowcall.domain import checks
from rowcall.domain.backoff import Backoff, RetryPolicy, backoff_to_text
from rowcall.domain.config import Config
from rowcall.domain.defaults import TaskDefaults
from rowcall.domain.errors import InvalidOption, moment_ms, unknown_option
from rowcall.domain.fairness import Weight, checked_argument, checked_weight
from rowcall.domain.job import Chain, Job
from rowcall.domain.limits import Limit, checked_limits
from rowcall.domain.push import PushOptions, checked_target
from rowcall.domain.retention import Retention
from rowcall.store.new_job import Awaited, KeyOf, NewJob
from rowcall.store.queries.flows import Unique

T = TypeVar("T")

DEFAULT_MAX_ATTEMPTS = 5
DEFAULT_BATCH_WAIT_SECONDS = 0.1


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
    target: str


class TaskOptions(Common, total=False):
    """The options of `@jobs.task(...)`."""

    name: str
    aliases: Iterable[str]
    on: str | Iterable[str]
    retry: RetryPolicy
    retention: Retention
    isolation: Literal["thread", "process"]
    memory_limit: int | str
    middleware: Iterable[AnyMiddleware]
    fair_by: str
    weight: Mapping[str, int] | Mapping[int, int] | Callable[..., int]
    ordered_by: str
    on_failure: Literal["skip", "block"]


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


class EditOptions(TypedDict, total=False):
    """The options of `jobs.edit(...)`."""

    queue: str
    priority: int
    delay: float | timedelta
    run_at: datetime
    max_attempts: int
    retry: Backoff
    timeout: float | timedelta
    expires_in: float | timedelta
    expires_at: datetime
    tags: Iterable[str]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options after they were checked; None means not given."""

    name: str | None = None
    aliases: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
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
    key: str | KeyOf | None = None
    key_scope: str | None = None
    key_window_ms: int | None = None
    on_duplicate: str | None = None
    after: tuple[Awaited, ...] = ()
    on_blocker_failure: str | None = None
    limits: tuple[Limit, ...] | None = None
    middleware: tuple[AnyMiddleware, ...] = ()
    target: str | None = None
    fair_by: str | None = None
    weight: Weight | None = None
    ordered_by: str | None = None
    on_failure: str | None = None


class _Option(NamedTuple):
    """An option, where it can be given, its check, and the field of `Options` if that has another name."""

    name: str
    where: Literal["task", "enqueue", "both"]
    check: checks.Check
    field: str = ""


_TABLE = (
    _Option("name", "task", checks.name),
    _Option("aliases", "task", check.aliases),
    _Option("on", "task", check.events),
    _Option("queue", "both", checks.queue),
    _Option("priority", "both", checks.whole(-(2**31), 2**31 - 1)),
    _Option("delay", "both", check.milliseconds, "delay_ms"),
    _Option("run_at", "enqueue", moment_ms, "run_at_ms"),
    _Option("max_attempts", "both", checks.whole(1, 1_000_000)),
    _Option("retry", "both", check.retry),
    _Option("timeout", "both", check.timeout, "timeout_seconds"),
    _Option("expires_in", "both", check.milliseconds, "expires_in_ms"),
    _Option("expires_at", "enqueue", moment_ms, "expires_at_ms"),
    _Option("tags", "both", check.tags),
    _Option("connection", "enqueue", checks.anything),
    _Option("retention", "task", check.retention),
    _Option("isolation", "task", check.isolation, "isolated"),
    _Option("memory_limit", "task", check.memory_limit),
    _Option("middleware", "task", checked_several),
    _Option("batch", "task", checks.whole(1, 1000)),
    _Option("batch_wait", "task", check.batch_wait, "batch_wait_seconds"),
    _Option("key", "both", check.key),
    _Option("key_scope", "both", checks.one_of("active", "any")),
    _Option("key_window", "both", check.window, "key_window_ms"),
    _Option("on_duplicate", "both", checks.one_of("return", "replace", "raise")),
    _Option("after", "enqueue", check.after),
    _Option("on_blocker_failure", "both", checks.one_of("fail", "run", "wait")),
    _Option("limit", "both", lambda option, value: checked_limits(value), "limits"),
    _Option("target", "both", checked_target),
    _Option("fair_by", "task", checked_argument),
    _Option("weight", "task", checked_weight),
    _Option("ordered_by", "task", checked_argument),
    _Option("on_failure", "task", checks.one_of("skip", "block")),
)
TASK_OPTIONS = {option.name: option for option in _TABLE if option.where != "enqueue"}
ENQUEUE_OPTIONS = {option.name: option for option in _TABLE if option.where != "task"}

_NOT_TOGETHER = (("run_at", "delay"), ("expires_at", "expires_in"))


def checked(options: Mapping[str, object], allowed: Mapping[str, _Option]) -> Options:
    """Return the options given, or raise `InvalidOption` for the first that is unknown or has a wrong value."""
    fields: dict[str, object] = {}
    for name, value in options.items():
        if name not in allowed:
            raise _unknown(name, allowed)
        if value is not None:
            fields[allowed[name].field or name] = allowed[name].check(name, value)
    for one, other in _NOT_TOGETHER:
        if options.get(one) is not None and options.get(other) is not None:
            raise InvalidOption(one, f"cannot be combined with {other}")
    if allowed is TASK_OPTIONS:
        _check_task(fields)
    elif callable(options.get("retry")):
        raise InvalidOption("retry", "must be a Backoff; a callable goes into task(retry=…), as a row cannot hold it")
    return Options(**fields)  # type: ignore[arg-type]


def as_given(options: Options) -> EnqueueOptions:
    """Return checked options in the form in which callers pass them, except for `after` and `connection`."""
    given: dict[str, object] = {}
    for name, option in ENQUEUE_OPTIONS.items():
        field = option.field or name
        value = getattr(options, field)
        if value is None or name in ("after", "connection"):
            continue
        given[name] = time_of(value) if name.endswith("_at") else value / 1000 if field.endswith("_ms") else value
    return given  # type: ignore[return-value]


def _check_task(fields: Mapping[str, object]) -> None:
    if fields.get("batch") is not None and fields.get("isolated"):
        raise InvalidOption("batch", "cannot be combined with isolation='process'")
    if "batch_wait_seconds" in fields and fields.get("batch") is None:
        raise InvalidOption("batch_wait", "needs batch=…, the largest number of jobs in one call")
    if fields.get("memory_limit") is not None and not fields.get("isolated"):
        raise InvalidOption("memory_limit", "needs isolation='process': a thread shares the memory of its worker")
    if fields.get("target") is not None and (fields.get("batch") is not None or fields.get("isolated")):
        raise InvalidOption(
            "target", "cannot be combined with batch=… or isolation='process': the worker only delivers the jobs"
        )
    if fields.get("weight") is not None and fields.get("fair_by") is None:
        raise InvalidOption("weight", "needs fair_by=…, the argument whose values have weights")
    if fields.get("on_failure") is not None and fields.get("ordered_by") is None:
        raise InvalidOption(
            "on_failure",
            "needs ordered_by=…: it says whether a failed job holds the later ones back; for a function that is called"
            " at the end, use @task.on_failure",
        )


def _unknown(name: str, allowed: Mapping[str, _Option]) -> InvalidOption:
    if name in TASK_OPTIONS:
        problem = f"{name} is an option of task({name}=…), not of a single job"
    elif name in ENQUEUE_OPTIONS:
        problem = f"{name} is an option of using({name}=…) and jobs.enqueue(…), not of a task"
    else:
        return unknown_option(name, allowed)
    return InvalidOption(name, problem, message=problem)


def checked_edit(given: Mapping[str, object]) -> Options:
    """Return the options given, or raise `InvalidOption` for one that cannot be changed after the enqueue."""
    for name in given:
        if name in ENQUEUE_OPTIONS and name not in EditOptions.__annotations__:
            raise InvalidOption(name, "cannot be changed after the job was enqueued")
    return checked(given, ENQUEUE_OPTIONS)


def option_hint(name: str) -> str:
    """Return where an option goes that was given as an argument, or an empty text."""
    return f"; options go into using({name}=…)" if name in ENQUEUE_OPTIONS else ""


def new_job(task: str, declared: Options, options: Options, config: Config) -> NewJob:
    """Return what is written of a job: options given, else those of its task, else the defaults."""
    queue = _first(options.queue, declared.queue, config.default_queue)
    run_at_given = options.run_at_ms is not None
    expiry_given = options.expires_at_ms is not None
    tags = [*dict.fromkeys([*(declared.tags or ()), *(options.tags or ())])]
    unique = _unique(declared, options)
    key = _given(options.key, declared.key)
    return NewJob(
        type=task,
        queue=queue,
        priority=_first(options.priority, declared.priority, 0),
        max_attempts=_first(options.max_attempts, declared.max_attempts, attempts_of(config.defaults, queue)),
        run_at_ms=options.run_at_ms,
        delay_ms=0 if run_at_given else _first(options.delay_ms, declared.delay_ms, 0),
        expires_at_ms=options.expires_at_ms,
        expires_in_ms=None if expiry_given else _given(options.expires_in_ms, declared.expires_in_ms),
        timeout_seconds=options.timeout_seconds,
        retry=backoff_to_text(options.retry) if isinstance(options.retry, Backoff) else None,
        tags=msgspec.json.encode(tags).decode() if tags else None,
        key=key if isinstance(key, str) else None,
        key_of=key if callable(key) else None,
        unique=unique,
        after=options.after,
        on_blocker_failure=_first(options.on_blocker_failure, declared.on_blocker_failure, "fail"),
        target=options.target,
    )


def check_push(task: str, declared: Options, options: Options, push: PushOptions | None) -> None:
    """Raise `InvalidOption` if the job would be delivered to a target, and this cannot be done."""
    target = options.target or declared.target
    if target is None:
        return
    if declared.batch is not None:
        raise InvalidOption("target", f"cannot be given for {task!r}, which runs in batches")
    if push is None:
        raise InvalidOption("target", "needs a secret that signs the requests: Rowcall(push=PushOptions(secrets=[…]))")
    if (problem := push.problem_of(target)) is not None:
        raise InvalidOption("target", problem)


def attempts_of(defaults: TaskDefaults | None, queue: str) -> int:
    return (defaults.of(queue).max_attempts if defaults is not None else None) or DEFAULT_MAX_ATTEMPTS


def _unique(declared: Options, options: Options) -> Unique | None:
    """Return what counts as a duplicate, or None without a key."""
    scope = _given(options.key_scope, declared.key_scope)
    window_ms = _given(options.key_window_ms, declared.key_window_ms)
    on_duplicate = _given(options.on_duplicate, declared.on_duplicate)
    if options.key is declared.key is None:
        for option, value in (("key_scope", scope), ("key_window", window_ms), ("on_duplicate", on_duplicate)):
            if value is not None:
                raise InvalidOption(option, "has no effect without a key; add key=…")
        return None
    if on_duplicate == "replace" and options.after:
        raise InvalidOption("after", 'cannot be combined with on_duplicate="replace": a waiting job keeps its blockers')
    return Unique(scope=scope or "active", window_ms=window_ms, on_duplicate=on_duplicate or "return")


def _given(given: T | None, declared: T | None) -> T | None:
    return given if given is not None else declared


def _first(given: T | None, declared: T | None, default: T) -> T:
    return given if given is not None else declared if declared is not None else default
