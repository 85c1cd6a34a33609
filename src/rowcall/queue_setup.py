"""The URL and the options of a queue: given when it is made, or later, before its first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rowcall.base.clock import SystemClock
from rowcall.context import Context
from rowcall.domain.alerts import Alert, Alerts
from rowcall.domain.config import Config, QueueOptions, configure
from rowcall.domain.errors import InvalidOption, PushFailed, refuse_unknown
from rowcall.observe.optional_libraries import tracing_of
from rowcall.queue import Backend, Following, Queue
from rowcall.store.queries.schedules import DeclaredSchedule
from rowcall.task import declare_limits

Url = str | Path | Callable[[], str | Path] | None

_NOT_IN_CONFIG = {"clock", "tracing"}
_OF_ONE_URL = _NOT_IN_CONFIG | {"listen_url", "moves_to", "pool_size"}
_OF_ONE_DATABASE = _OF_ONE_URL | {"auto_migrate", "blobs"}


class Setup:
    """Makes the queue. `configure` may be called once, unless the URL was given before."""

    def __init__(self, url: Url, options: QueueOptions) -> None:
        self._url = url
        self._options = options
        self._schedules: list[Callable[[], DeclaredSchedule]] = []
        self.queue = Queue(self._config)
        self.queue.declared.deliver = partial(_deliver, self.queue)
        self.queue.declared.post_alert = partial(_post_alert, self.queue)
        known = url is not None and not callable(url)
        self._refusal = "this queue got its URL from Rowcall(url); pass all options there" if known else ""
        self._apply(options, open_now=known)

    def configure(self, url: Url, options: QueueOptions) -> None:
        swapped = self.queue.is_swapped  # in a test that uses another database: app factories run there, too
        if self.queue.is_open and not swapped:
            in_use = f"this queue is already in use, with {self.queue.database.name}; call configure before"
            raise InvalidOption("configure", self._refusal or in_use)
        before = self._url, self._options
        self._url = self._url if url is None else url
        self._options = {**self._options, **options}
        try:
            self._apply(options, open_now=not (swapped or callable(self._url)))
        except BaseException:
            self._url, self._options = before
            raise
        if not swapped:
            self._refusal = "was already called; call it once, with the URL and all options"
        self.queue.declared.schedules.clear()
        for make in self._schedules:  # their default queue may have changed
            self._declare(make())

    def _apply(self, options: QueueOptions, *, open_now: bool) -> None:
        """Check the options, then use them. Opening the database connects to nothing, but needs the driver."""
        refuse_unknown(options, {"url", *QueueOptions.__annotations__})
        config = self._config(checked_only=self._url is None or callable(self._url))
        queue, tracing = self.queue, tracing_of(self._options.get("tracing", False))
        queue.own_backend.clock = self._options.get("clock") or SystemClock()
        if config.moves_to is not None:
            there = Backend(partial(configure, config.moves_to, **self._options_except(_OF_ONE_URL)))
            queue.following = Following(queue.own_backend, there)
        if open_now:
            queue.database  # noqa: B018
        queue.declared.tracing = tracing
        queue.declared.options = config
        queue.declared.failures.configure(config.scrub, config.traceback_limit)
        queue.declared.follow_ups.configure(config)
        for declared in queue.declared.tasks.values():
            declared.defaults = config.defaults
            declare_limits(queue, declared)

    def _config(self, *, checked_only: bool = False) -> Config:
        url = None if checked_only else self._url() if callable(self._url) else self._url
        return configure(url, without_url=checked_only, **self._options_except(_NOT_IN_CONFIG))

    def config_at(self, url: str) -> Config:
        """Return the options for another database; blobs are stored with the jobs there."""
        return configure(url, **self._options_except(_OF_ONE_DATABASE))

    def _options_except(self, left_out: set[str]) -> QueueOptions:
        return {name: value for name, value in self._options.items() if name not in left_out}  # type: ignore[return-value]

    def declare_schedule(self, make: Callable[[], DeclaredSchedule]) -> None:
        self._declare(make())
        self._schedules.append(make)

    def _declare(self, schedule: DeclaredSchedule) -> None:
        self.queue.declared.schedules[schedule.name] = schedule


async def _deliver(
    queue: Queue, ctx: Context, target: str, arguments: dict[str, object], timeout_seconds: float | None
) -> object:
    try:
        from rowcall.http.push.delivery import deliver
    except ModuleNotFoundError as error:
        raise PushFailed("PUSH:NOT_CONFIGURED", f"needs {error.name}: pip install 'rowcall[http]'") from error
    return await deliver(queue, ctx, target, arguments, timeout_seconds)


async def _post_alert(queue: Queue, alerts: Alerts, alert: Alert, seconds: float) -> None:
    try:
        from rowcall.http.push.alert_delivery import post
    except ModuleNotFoundError as error:
        raise PushFailed("PUSH:NOT_CONFIGURED", f"needs {error.name}: pip install 'rowcall[http]'") from error
    await post(alerts, alert, seconds, queue.clock)
