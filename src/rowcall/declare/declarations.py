"""Declarations: what an app declares on a queue. They stay while a test has swapped the backend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from rowcall.context import Context
from rowcall.declare.declaration import Declaration
from rowcall.declare.enqueue_call import EnqueueMiddleware
from rowcall.declare.failures import Failures
from rowcall.declare.follow_ups import FollowUps
from rowcall.declare.handlers import Handlers
from rowcall.declare.lifespan import LifespanFunction
from rowcall.declare.limits import KnownLimits
from rowcall.declare.tracing import Tracing
from rowcall.domain.alerts import Alert, Alerts
from rowcall.domain.config import Config
from rowcall.domain.fairness import FairBy
from rowcall.store.queries.schedules import DeclaredSchedule


class Deliver(Protocol):
    """Returns what the target answers, or raises `PushFailed`. Without a timeout, that of `PushOptions` applies."""

    async def __call__(
        self, ctx: Context, target: str, arguments: dict[str, object], timeout_seconds: float | None
    ) -> object: ...


class PostAlert(Protocol):
    """Sends an alert to the URL of `Alerts`, or raises `PushFailed`."""

    async def __call__(self, alerts: Alerts, alert: Alert, seconds: float) -> None: ...


class Declarations:
    def __init__(self) -> None:
        self.options = Config()
        """The configuration as far as it is known before the URL is."""
        self.tracing: Tracing | None = None
        self.tasks: dict[str, Declaration] = {}
        """The declared tasks by name, and by each of their aliases."""
        self.aliases: dict[str, str] = {}
        """The names of tasks by their aliases."""
        self.undeclared: set[str] = set()
        """Names that were enqueued, and are not those of declared tasks."""
        self.handlers = Handlers(self.tasks)
        self.enqueue_middleware: tuple[EnqueueMiddleware, ...] = ()
        self.lifespan: LifespanFunction | None = None
        self.limits = KnownLimits()
        self.fair_queues: dict[str, FairBy] = {}
        """How the jobs of a queue take turns."""
        self.failures = Failures()
        self.follow_ups = FollowUps(self.tasks)
        self.schedules: dict[str, DeclaredSchedule] = {}
        self.deliver: Deliver | None = None
        """Delivers a job to a target."""
        self.post_alert: PostAlert | None = None
        self.app_module: str | None = None
        """The module that `rowcall work` was started with: child processes import it first."""
        self.last: list[Callable[[], None]] = []
        """Called once, before a worker starts or a command shows what is declared: they may declare more."""
        self._finishing = threading.RLock()

    def finish(self) -> None:
        with self._finishing:
            while self.last:
                declare = self.last.pop(0)
                try:
                    declare()
                except BaseException:
                    self.last.insert(0, declare)
                    raise
