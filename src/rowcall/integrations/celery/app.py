"""`Celery`: an app whose tasks are tasks of a `Rowcall`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, overload

from rowcall.app import Rowcall
from rowcall.base.urls import shown
from rowcall.domain.errors import InvalidOption, UnknownTask, unknown_option
from rowcall.integrations.celery.beat import beat_entries
from rowcall.integrations.celery.canvas import Signature, signature
from rowcall.integrations.celery.current import current_app, set_current
from rowcall.integrations.celery.result import AsyncResult
from rowcall.integrations.celery.settings import Settings, logger, settings_in
from rowcall.integrations.celery.task import Task, TaskSettings, our_options

OUR_SCHEMES = ("sqlite:", "postgresql:", "postgres:")
# nothing to do for these: jobs are acknowledged when they are done, results are kept, payloads are JSON
NEEDLESS = frozenset(
    {"acks_late", "compression", "ignore_result", "reject_on_worker_lost", "serializer", "throws", "track_started"}
)


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
    `Celery("shop", jobs=jobs)` uses a `Rowcall` that is there already, such as `rowcall.django.jobs`.
    """

    def __init__(
        self, main: str | None = None, broker: str | None = None, *, jobs: Rowcall | None = None, **settings: object
    ) -> None:
        if jobs is not None and not isinstance(jobs, Rowcall):
            raise InvalidOption("jobs", f"must be a Rowcall, got {jobs!r}")
        self.main = main
        self.tasks: dict[str, Task] = {}
        self._scheduled: set[str] = set()
        self._broker: str | None = None
        self._has_own_queue = jobs is None
        self.jobs = Rowcall() if jobs is None else jobs
        self.conf = Settings(self._apply_settings)
        if broker:
            self.conf.broker_url = broker
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

    def config_from_object(
        self, obj: object, silent: bool = False, force: bool = False, namespace: str | None = None
    ) -> None:
        """Read settings from an object, or from a module by its name: `"celeryconfig"`, `"django.conf:settings"`.

        With `namespace="CELERY"`, `CELERY_BEAT_SCHEDULE` is the setting `beat_schedule`.
        """
        try:
            found = settings_in(obj, namespace)
        except ImportError:
            if not silent:
                raise
            return
        self.conf.update(found)

    def add_periodic_task(
        self,
        schedule: str | float | timedelta,
        sig: Signature,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        name: str | None = None,
        **options: object,
    ) -> str:
        """Add an entry to `beat_schedule`: `app.add_periodic_task(30.0, pulse.s())`. Return its name."""
        call = sig.clone(args, kwargs)
        entry = {"task": call.task.name, "schedule": schedule, "args": call.args, "kwargs": call.kwargs}
        entry["options"] = {**call.options, **options}
        self.conf.beat_schedule = {**self.conf.beat_schedule, name or repr(call): entry}
        return name or repr(call)

    def _apply_settings(self) -> None:
        broker = self.conf.broker_url
        if broker != self._broker and self._has_own_queue:
            self._broker = broker
            if broker and broker.startswith(OUR_SCHEMES):
                self.jobs.configure(url=broker)
            elif broker:
                logger.warning("the broker %s is not used: Rowcall() opens $ROWCALL_URL, or a file", shown(broker))
        self._declare_schedules()

    def _declare_schedules(self) -> None:
        """Declare the entries of `beat_schedule` whose tasks are there."""
        for entry in beat_entries(self.conf.beat_schedule):
            if entry.name in self._scheduled or entry.task not in self.tasks:
                continue
            tz = self.conf.timezone if entry.cron is not None else None
            options: Any = our_options({**self.route(entry.task), **entry.options})
            declare = self.jobs.schedule(
                entry.cron, every=entry.every, tz=tz, name=entry.name, arguments=entry.arguments, **options
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
        payload = {"args": list(args), "kwargs": dict(kwargs or {})}
        job = self.jobs.enqueue(name, payload, **our_options({**self.route(name), **options}))
        return AsyncResult(job.id, self.jobs)

    def signature(
        self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None, **options: object
    ) -> Signature:
        """Return a call of the task with this name as a value."""
        return signature(self.tasks.get(name, name), args, kwargs).set(**options)

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
