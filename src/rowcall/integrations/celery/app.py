"""`Celery`: an app whose tasks are tasks of a `Rowcall`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar, overload

from rowcall.app import Rowcall, queue_of
from rowcall.base.urls import shown
from rowcall.domain.errors import InvalidOption, UnknownTask
from rowcall.integrations.celery.beat import beat_entries, refused_of_entry
from rowcall.integrations.celery.canvas import Signature, signature
from rowcall.integrations.celery.conf import CelerySettings, Route, logger, routes_of, settings_in
from rowcall.integrations.celery.control import CeleryControl
from rowcall.integrations.celery.current import current_app, running, set_current
from rowcall.integrations.celery.options import our_options, refusal, refused_of_call
from rowcall.integrations.celery.result import AsyncResult
from rowcall.integrations.celery.task import Task as CeleryTask
from rowcall.integrations.celery.values import packed

OUR_SCHEMES = ("sqlite:", "postgresql:", "postgres:", "mysql:", "mariadb:")
F = TypeVar("F", bound=Callable[..., object])


class SharedTask:
    """A task of `@shared_task`: the task of the app that was created last."""

    def __init__(self, function: Callable[..., object], options: Mapping[str, object]) -> None:
        self.function = function
        self.given = options
        self.task: CeleryTask | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._found()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def _found(self) -> CeleryTask:
        if self.task is None:
            current_app()  # raises: there is none
            raise UnknownTask(self.function.__name__, [])
        return self.task


class Late:
    """Functions that are called once, before a worker starts: `@app.on_after_configure.connect`."""

    def __init__(self) -> None:
        self.functions: list[Callable[..., object]] = []

    def connect(self, function: F | None = None, **options: object) -> Any:
        if function is None:
            return self.connect
        self.functions.append(function)
        return function

    def send(self, sender: object) -> None:
        while self.functions:
            self.functions[0](sender)
            self.functions.pop(0)


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
        self,
        main: str | None = None,
        broker: str | None = None,
        *,
        jobs: Rowcall | None = None,
        task_cls: type[CeleryTask] = CeleryTask,
        config_source: object = None,
        **settings: object,
    ) -> None:
        if jobs is not None and not isinstance(jobs, Rowcall):
            raise InvalidOption("jobs", f"must be a Rowcall, got {jobs!r}")
        self.main = main
        self.tasks: dict[str, CeleryTask] = {}
        self.on_after_configure, self.on_after_finalize = Late(), Late()
        self._packages: list[tuple[object, str]] = []
        self._scheduled: set[str] = set()
        self._refused: dict[str, list[str]] = {}
        self._routes: list[Route] = []
        self._broker: str | None = None
        self._has_own_queue = jobs is None
        self._task_class = _task_class(task_cls)
        self.jobs = Rowcall() if jobs is None else jobs
        self.control = CeleryControl(self.jobs)
        self.conf = CelerySettings(self._apply_settings)
        unused = {
            "backend",
            "set_as_current",
            "strict_typing",
            "autofinalize",
            "fixups",
            "loader",
        }  # results are in the jobs
        given = {name: value for name, value in settings.items() if name not in unused and value is not None}
        self.conf.update({"broker_url": broker, **given} if broker else given)
        if config_source is not None:
            self.config_from_object(config_source)
        self.set_default()
        _apps[:] = [self]
        for shared in _shared:
            self._attach(shared)

    def __repr__(self) -> str:
        return f"<Celery {self.main}: {self.jobs!r}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"an app has no {name!r} in Rowcall; see docs/from-celery.md")

    def set_default(self) -> None:
        """Make it the app of `current_app` and `AsyncResult`."""
        set_current(self)

    set_current = set_default

    # tasks

    @property
    def Task(self) -> type[CeleryTask]:  # noqa: N802 (Celery's name)
        """The class of tasks without `base=…`. It may be set: tasks that are there already become of that class."""
        return self._task_class

    @Task.setter
    def Task(self, kind: type[CeleryTask]) -> None:  # noqa: N802
        before, self._task_class = self._task_class, _task_class(kind)
        for task in self.tasks.values():
            if type(task) is before:
                task.__class__ = kind

    @overload
    def task(self, function: Callable[..., object], /) -> CeleryTask: ...
    @overload
    def task(self, /, **options: object) -> Callable[[Callable[..., object]], CeleryTask]: ...

    def task(self, function: Callable[..., object] | None = None, /, **options: object) -> object:
        """Declare a task: `@app.task`, or `@app.task(bind=True, max_retries=3, queue="mail")`."""
        if function is not None:
            return self._declare(function, options)
        return lambda function: self._declare(function, options)

    def _declare(self, function: Callable[..., object], options: Mapping[str, object]) -> CeleryTask:
        task = _task_class(options.get("base") or self._task_class)()
        name = function.__name__
        if function.__module__ == "__main__" and self.main and not options.get("name"):
            options = {**options, "name": f"{self.main}.{name}"}  # as workers import it
        return self._register(task, function, options)

    def register_task(self, task: CeleryTask, **options: object) -> CeleryTask:
        """Declare a task that is a class: `app.register_task(Import())`, whose method `run` is the function."""
        return self._register(task, None, options)

    def _register(
        self, task: CeleryTask, function: Callable[..., object] | None, options: Mapping[str, object]
    ) -> CeleryTask:
        task.attach(self, function, options)
        self.tasks[task.name] = task
        self._refused[task.name] = [f"{task.name}: {line}" for line in task.refused]
        return task

    def check_options(self) -> None:
        """Raise one `InvalidOption` about all refused options: of tasks, of `task_routes` and of `beat_schedule`.

        Tasks and settings may still follow their declaration, so it is called by the first call, and by a worker.
        """
        if lines := [line for lines in self._refused.values() for line in lines]:
            raise refusal(lines)

    def _attach(self, shared: SharedTask) -> None:
        shared.task = self._declare(shared.function, shared.given)

    # settings

    def config_from_object(
        self, obj: object, silent: bool = False, force: bool = False, namespace: str | None = None
    ) -> None:
        """Read settings from an object, or from a module by its name: `"celeryconfig"`, `"django.conf:settings"`.

        With `namespace="CELERY"`, `CELERY_BEAT_SCHEDULE` is the setting `beat_schedule`.
        """
        try:
            values = settings_in(obj, namespace)
        except ImportError:
            if not silent:
                raise
            return
        self.conf.update(values)

    def autodiscover_tasks(
        self,
        packages: Iterable[str] | Callable[[], Iterable[str]] | None = None,
        related_name: str = "tasks",
        force: bool = False,
    ) -> None:
        """Have workers import the module `tasks` of each package. Without packages they search for them."""
        if packages is not None:
            self._packages.append((packages, related_name))
            self._finish_later()

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
        self._routes = routes_of(self.conf.task_routes)
        entries = beat_entries(self.conf.beat_schedule, self.conf.timezone)
        for option in ("imports", "include"):
            names = getattr(self.conf, option)
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise InvalidOption(option, f"must be a list of modules, got {names!r}")
        self._refused["task_routes"] = [
            f"task_routes, {route.pattern}: {line}" for route in self._routes for line in refused_of_call(route.options)
        ]
        self._refused["beat_schedule"] = [
            f"beat_schedule, {entry.name}: {line}" for entry in entries for line in refused_of_entry(entry)
        ]
        broker = self.conf.broker_url
        if broker != self._broker and self._has_own_queue:
            self._broker = broker
            if broker and broker.startswith(OUR_SCHEMES):
                self.jobs.configure(url=broker)
            elif broker:
                logger.warning("the broker %s is not used: Rowcall() opens $ROWCALL_URL, or a file", shown(broker))
        self._finish_later()

    def _finish_later(self) -> None:
        """Tasks and settings may still follow; the last of them are there when a worker starts."""
        later = queue_of(self.jobs).declared.last
        if self.finalize not in later:
            later.append(self.finalize)

    def finalize(self, auto: bool = False) -> None:
        """Import the modules of tasks, call `on_after_configure`, and declare `beat_schedule`.

        A worker calls it before it starts.
        """
        for module in (*self.conf.imports, *self.conf.include, *self._discovered()):
            importlib.import_module(module)
        self.on_after_configure.send(self)
        self.on_after_finalize.send(self)
        self.check_options()
        for entry in beat_entries(self.conf.beat_schedule, self.conf.timezone):
            if entry.name in self._scheduled:
                continue
            if entry.task not in self.tasks:
                logger.error("beat_schedule: %s names a task that is not declared: %s", entry.name, entry.task)
                continue
            tz = self.conf.timezone if entry.cron is not None else None
            options: Any = our_options({**self.route(entry.task), **entry.options})
            declare = self.jobs.schedule(
                entry.cron, every=entry.every, tz=tz, name=entry.name, arguments=entry.arguments, **options
            )
            declare(self.tasks[entry.task].task)
            self._scheduled.add(entry.name)

    def _discovered(self) -> list[str]:
        """Return the modules of the packages of `autodiscover_tasks`, as far as there are such."""
        modules = []
        for packages, name in self._packages:
            given: Any = packages() if callable(packages) else packages
            names = [f"{package}.{name}" for package in given]
            modules += [module for module in names if importlib.util.find_spec(module) is not None]
        return modules

    def route(self, task: str) -> Mapping[str, object]:
        """Return the options that `task_routes` has for a task; `mail.*` is every task that begins with `mail.`."""
        return next((route.options for route in self._routes if route.matches(task)), {})

    # calls

    def send_task(
        self,
        name: str,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: object,
    ) -> AsyncResult:
        """Enqueue a task by its name, which another program may declare."""
        if name in self.tasks:
            result = self.tasks[name].s().enqueue(args, kwargs, **options)
            assert isinstance(result, AsyncResult)
            return result
        self.check_options()
        payload: Any = packed({"args": args or [], "kwargs": kwargs or {}})
        job = self.jobs.enqueue(name, payload, **our_options({**self.route(name), **options}))
        return AsyncResult(job.id, self.jobs)

    def signature(
        self,
        name: str,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        immutable: bool = False,
        **options: object,
    ) -> Signature:
        """Return a call of the task with this name as a value."""
        task = self.tasks.get(name, name) if isinstance(name, str) else name
        return signature(task, args, kwargs, immutable, **options)

    @property
    def current_task(self) -> object:
        """The task that runs here, or None."""
        found = running.get()
        return None if found is None else found.task

    current_worker_task = current_task

    def AsyncResult(self, id: str | int) -> AsyncResult:  # noqa: N802 (Celery's name)
        return AsyncResult(id, self.jobs)

    # processes

    def worker_main(self, argv: Sequence[str] | None = None) -> None:
        """Run a worker until SIGINT or SIGTERM. `argv` has no effect: `rowcall work shop:app.jobs` has options."""
        self.jobs.work()

    def start(self, argv: Sequence[str] | None = None) -> None:
        """`worker_main`: there is no command line of Celery."""
        self.worker_main(argv)

    def close(self) -> None:
        """Close the connections."""
        self.jobs.close()

    def __enter__(self) -> Celery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@overload
def shared_task(function: Callable[..., object], /) -> SharedTask: ...
@overload
def shared_task(**options: object) -> Callable[[Callable[..., object]], SharedTask]: ...


def shared_task(function: Callable[..., object] | None = None, /, **options: object) -> object:
    """Declare a task for the app that is, or will be, there."""

    def declare(function: Callable[..., object]) -> SharedTask:
        shared = SharedTask(function, options)
        _shared.append(shared)
        if _apps:
            _apps[0]._attach(shared)
        return shared

    return declare if function is None else declare(function)


def _task_class(kind: object) -> type[CeleryTask]:
    if not (isinstance(kind, type) and issubclass(kind, CeleryTask)):
        raise InvalidOption("base", f"must be a class of tasks, a subclass of Task, got {kind!r}")
    return kind
