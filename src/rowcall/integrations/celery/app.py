"""`Celery`: an app whose tasks are tasks of a `Rowcall`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from rowcall.app import Rowcall
from rowcall.base.urls import shown
from rowcall.domain.errors import UnknownTask, unknown_option
from rowcall.integrations.celery.beat import beat_entries
from rowcall.integrations.celery.current import current_app, set_current
from rowcall.integrations.celery.result import AsyncResult
from rowcall.integrations.celery.settings import Settings, logger
from rowcall.integrations.celery.task import Task, TaskSettings

OUR_SCHEMES = ("sqlite:", "postgresql:", "postgres:")
# nothing to do for these: jobs are acknowledged when they are done, results are kept, payloads are JSON
NEEDLESS = frozenset({"acks_late", "ignore_result", "reject_on_worker_lost", "serializer", "track_started"})


class SharedTask:
    """A task of `@shared_task`: the task of the app that was created last."""

    def __init__(self, function: Callable[..., object], options: Mapping[str, object]) -> None:
        self.function = function
        self.given = options
        self.task: Task | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._found()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def _found(self) -> Task:
        if self.task is None:
            current_app()  # raises: there is none
            raise UnknownTask(self.function.__name__, [])
        return self.task


_shared: list[SharedTask] = []
_apps: list[Celery] = []


class Celery:
    """A Celery app on top of Rowcall.

        app = Celery("shop", broker="sqlite:///shop.db")

        @app.task(bind=True, max_retries=3)
        def charge(self, order_id): ...

        charge.delay(7)

    `app.jobs` is the `Rowcall`. A broker that Rowcall cannot use, such as Redis, is not used: jobs are in
    `$ROWCALL_URL`, else in `sqlite:///rowcall.db`. Start workers with `rowcall work shop:app.jobs`.
    """

    def __init__(self, main: str | None = None, broker: str | None = None, **settings: object) -> None:
        self.main = main
        self.tasks: dict[str, Task] = {}
        self._scheduled: set[str] = set()
        self.jobs = Rowcall(broker if broker and broker.startswith(OUR_SCHEMES) else None)
        if broker and not broker.startswith(OUR_SCHEMES):
            logger.warning("the broker %s is not used: Rowcall() opens $ROWCALL_URL, or a file", shown(broker))
        self.conf = Settings(self._declare_schedules)
        settings.pop("backend", None)  # results are in the jobs
        settings.pop("include", None)  # workers find modules named tasks; --import names others
        self.conf.update(settings)
        set_current(self)
        _apps[:] = [self]
        for shared in _shared:
            self._attach(shared)

    def __repr__(self) -> str:
        return f"<Celery {self.main}: {self.jobs!r}>"

    @overload
    def task(self, function: Callable[..., object], /) -> Task: ...
    @overload
    def task(self, /, **options: object) -> Callable[[Callable[..., object]], Task]: ...

    def task(self, function: Callable[..., object] | None = None, /, **options: object) -> object:
        """Declare a task: `@app.task`, or `@app.task(bind=True, max_retries=3, queue="mail")`."""
        settings = _task_settings(options)
        if function is not None:
            return self._declare(function, settings)
        return lambda function: self._declare(function, settings)

    def _declare(self, function: Callable[..., object], settings: TaskSettings) -> Task:
        task = Task(self, function, settings)
        self.tasks[task.name] = task
        self._declare_schedules()
        return task

    def _attach(self, shared: SharedTask) -> None:
        shared.task = self._declare(shared.function, _task_settings(shared.given))

    def _declare_schedules(self) -> None:
        """Declare the entries of `beat_schedule` whose tasks are there."""
        for entry in beat_entries(self.conf.beat_schedule):
            if entry.name in self._scheduled or entry.task not in self.tasks:
                continue
            tz = self.conf.timezone if entry.cron is not None else None
            declare = self.jobs.schedule(
                entry.cron, every=entry.every, tz=tz, name=entry.name, arguments=entry.arguments
            )
            declare(self.tasks[entry.task].task)
            self._scheduled.add(entry.name)

    def route(self, task: str) -> Mapping[str, object]:
        """Return the options that `task_routes` has for a task; `mail.*` is every task that begins with `mail.`."""
        for pattern, options in self.conf.task_routes.items():
            if pattern == task or (pattern.endswith("*") and task.startswith(pattern[:-1])):
                return options
        return {}

    def send_task(
        self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None, **options: object
    ) -> AsyncResult:
        """Enqueue a task by its name."""
        if name in self.tasks:
            return self.tasks[name].apply_async(args, kwargs, **options)
        job = self.jobs.enqueue(name, {"args": list(args), "kwargs": dict(kwargs or {})})
        return AsyncResult(job.id, self.jobs)

    def autodiscover_tasks(self, *packages: object, **options: object) -> None:
        """Do nothing: workers import the modules named `tasks` by themselves."""

    def AsyncResult(self, id: str | int) -> AsyncResult:  # noqa: N802 (Celery's name)
        return AsyncResult(id, self.jobs)


@overload
def shared_task(function: Callable[..., object], /) -> SharedTask: ...
@overload
def shared_task(**options: object) -> Callable[[Callable[..., object]], SharedTask]: ...


def shared_task(function: Callable[..., object] | None = None, /, **options: object) -> object:
    """Declare a task for the app that is, or will be, there."""
    _task_settings(options)  # a wrong option is reported here, and not when the app is created

    def declare(function: Callable[..., object]) -> SharedTask:
        shared = SharedTask(function, options)
        _shared.append(shared)
        if _apps:
            _apps[0]._attach(shared)
        return shared

    return declare if function is None else declare(function)


def _task_settings(options: Mapping[str, object]) -> TaskSettings:
    """Return the options that have an effect. `InvalidOption` for an unknown one."""
    given = {name: value for name, value in options.items() if name not in NEEDLESS}
    for name in given:
        if name not in TaskSettings.__struct_fields__:
            raise unknown_option(name, [*TaskSettings.__struct_fields__, *NEEDLESS])
    return TaskSettings(**given)  # type: ignore[arg-type]
