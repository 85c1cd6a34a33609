"""The tasks that an app declares, with the options that apply to them, and how many jobs of each there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import TypeVar

import msgspec

from rowcall.declare.declaration import Declaration
from rowcall.declare.option_table import attempts_of
from rowcall.domain.backoff import DEFAULT_BACKOFF, Backoff
from rowcall.domain.job import Status
from rowcall.domain.payload import parameters_of
from rowcall.queue import Queue

PUSHED = "push"
_STARS: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


class TaskOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A declared task, or one that only jobs in the database name: then its options are not known."""

    name: str
    declared: bool
    function: str | None = None
    arguments: list[str] | None = None
    optional: list[str] | None = None
    aliases: list[str] = []
    on: list[str] | None = None
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    retry: object = None
    runs_in: str | None = None
    batch: int | None = None
    tags: list[str] = []
    limits: list[str] = []
    jobs: dict[str, int]


def tasks_of(queue: Queue, by_type: Mapping[str, Mapping[str, int]]) -> list[TaskOverview]:
    """Return the declared tasks by name, then the others. Jobs of an alias count for its task."""
    none = dict.fromkeys(map(str, Status), 0)
    counts = {name: Counter(none) for name in queue.declared.tasks if name not in queue.declared.aliases}
    unknown: dict[str, Counter[str]] = {}
    for name, jobs in by_type.items():
        named = queue.declared.aliases.get(name, name)
        (counts if named in counts else unknown).setdefault(named, Counter(none)).update(jobs)
    declared = [_declared(queue, queue.declared.tasks[name], jobs) for name, jobs in sorted(counts.items())]
    return [
        *declared,
        *(TaskOverview(name=name, declared=False, jobs=dict(jobs)) for name, jobs in sorted(unknown.items())),
    ]


F = TypeVar("F", bound=Callable[..., object])
_SHOWN = "rowcall_parameters"


def shown_as(handler: F, function: Callable[..., object], parameters: Sequence[Parameter]) -> F:
    """Return the handler. Lists of tasks show the function that it calls, and the parameters of calls."""
    setattr(handler, _SHOWN, list(parameters))
    handler.__module__, handler.__qualname__ = function.__module__, function.__qualname__
    return handler


def fails_at_once(retry: object) -> bool:
    """Return whether no exception is retried. A job whose worker has died still runs again."""
    policy = retry.to_dict() if isinstance(retry, Backoff) else retry
    return isinstance(policy, dict) and "builtins.BaseException" in policy["give_up_on"]


def _declared(queue: Queue, task: Declaration, jobs: Mapping[str, int]) -> TaskOverview:
    options, defaults = task.options, queue.declared.options.defaults
    name = options.queue or queue.config.default_queue
    timeout = options.timeout_seconds
    if timeout is None and defaults is not None:
        timeout = defaults.timeout_seconds(name)
    retry = options.retry or (defaults.of(name).retry if defaults is not None else None) or DEFAULT_BACKOFF
    own = [one for one in parameters_of(task.function) if one.name in task.arguments.names]
    parameters: list[Parameter] = getattr(task.function, _SHOWN, own)
    return TaskOverview(
        name=task.name,
        declared=True,
        function=f"{task.function.__module__}.{getattr(task.function, '__qualname__', task.name)}",
        arguments=task.arguments.names if parameters is own else list(map(_name, parameters)),
        optional=[_name(one) for one in parameters if one.default is not one.empty or one.kind in _STARS],
        aliases=list(options.aliases),
        on=list(options.on) or None,
        queue=name,
        priority=options.priority or 0,
        max_attempts=options.max_attempts or attempts_of(defaults, name),
        timeout=timeout,
        retry=retry.to_dict() if isinstance(retry, Backoff) else getattr(retry, "__qualname__", repr(retry)),
        runs_in=task.lane.value if options.target is None else PUSHED,
        batch=options.batch,
        tags=list(options.tags or ()),
        limits=[limit.name for limit in options.limits or ()],
        jobs=dict(jobs),
    )


def _name(parameter: Parameter) -> str:
    return f"{_STARS.get(parameter.kind, '')}{parameter.name}"
