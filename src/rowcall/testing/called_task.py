"""What an assertion about a task needs to know of it: a task of Rowcall, its name, or one of another framework."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from rowcall.app import queue_of
from rowcall.declare.declaration import Declaration
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.domain.payload import PayloadUnfit
from rowcall.integrations.celery.app import SharedTask
from rowcall.integrations.celery.task import Task as CeleryTask
from rowcall.integrations.celery.values import unpacked
from rowcall.queue import Queue
from rowcall.task import BaseTask
from rowcall.testing.clean_queue import clean_now, queues_in_modules

Arguments = Mapping[str, object]


class DjangoTask(Protocol):
    """A task of Django's Tasks framework."""

    @property
    def module_path(self) -> str: ...
    @property
    def takes_context(self) -> bool: ...
    @property
    def func(self) -> Callable[..., object]: ...


AnyTask = BaseTask[..., object] | str | CeleryTask | SharedTask | DjangoTask


class CalledTask(NamedTuple):
    """`forms` are the arguments of a job, as JSON and as the handler gets them. `arguments` are names, if known."""

    name: str
    queues: list[Queue]
    arguments: Collection[str] | None
    forms: Callable[[Job], Iterator[Arguments]]


def called_task(task: AnyTask) -> CalledTask:
    """Return a task as assertions need it, or raise `InvalidOption`."""
    if isinstance(task, BaseTask):
        return _declared(task.name, [task._queue], task._declared)
    if isinstance(task, str):
        return _named(task)
    if isinstance(task, CeleryTask | SharedTask):
        return _framework_task(task.name, queue_of(task.app.jobs), task.run, takes_context=False)
    if hasattr(task, "module_path") and hasattr(task, "takes_context"):
        from rowcall.integrations.django.queue import jobs

        return _framework_task(task.module_path, queue_of(jobs), task.func, takes_context=task.takes_context)
    example = "such as the function under @jobs.task, or its name"
    raise InvalidOption("task", f"must be a task, {example}, got {task!r}")


def _declared(name: str, queues: list[Queue], declared: Declaration) -> CalledTask:
    arguments = declared.arguments

    def forms(job: Job) -> Iterator[Arguments]:
        defaults = {name: arguments.value_if_missing(name) for name in arguments.names if name not in job.payload}
        yield {**defaults, **job.payload}
        try:
            positional, named = arguments.from_json(msgspec.json.encode(job.payload).decode())
        except PayloadUnfit:
            return
        yield dict(zip(arguments.names, positional, strict=False)) | named

    return CalledTask(name, queues, arguments.names, forms)


def _named(name: str) -> CalledTask:
    """Another program may declare it: then the payload is all that is known."""
    queues = clean_now or [queue_of(jobs) for jobs in queues_in_modules()]
    declaring = [queue for queue in queues if name in queue.declared.tasks]
    if len(declaring) == 1:
        task = declaring[0].declared.tasks[name]
        return _declared(task.name, declaring, task)
    return CalledTask(name, declaring or queues, None, lambda job: iter([job.payload]))


def _framework_task(name: str, queue: Queue, function: Callable[..., object], *, takes_context: bool) -> CalledTask:
    """Its jobs have positional and named arguments, as they were given."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[takes_context:]
    signature = signature.replace(parameters=parameters)

    def forms(job: Job) -> Iterator[Arguments]:
        given = cast(Any, unpacked(job.payload))
        bound = signature.bind_partial(*given.get("args", ()), **given.get("kwargs", {}))
        bound.apply_defaults()
        named = dict(bound.arguments)
        for parameter in parameters:
            if parameter.kind is parameter.VAR_KEYWORD:
                named |= named.pop(parameter.name)
        yield named

    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return CalledTask(name, [queue], None if takes_any else [one.name for one in parameters], forms)
