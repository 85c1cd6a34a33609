"""A worker as a user holds it: started and stopped in any of three ways, all alike."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from types import TracebackType

from rowcall.context import logger
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import Stats, Summary
from rowcall.domain.lifecycle import Move, Released
from rowcall.drivers.finishing import finish_in_thread
from rowcall.observe.endpoint import Endpoint
from rowcall.operations.enqueue import Enqueueing
from rowcall.operations.limits import publish_limits
from rowcall.operations.schedules import publish_schedules
from rowcall.store.counts.folding import fold
from rowcall.wake.waker import Waker
from rowcall.worker.completion import Completion
from rowcall.worker.isolation.bootstrap import refuse_while_importing
from rowcall.worker.lanes.async_lane import AsyncLane
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.loop.rounds import Loop
from rowcall.worker.loop.trouble import Outage
from rowcall.worker.registrar import Registrar
from rowcall.worker.service import Background, Service
from rowcall.worker.settings import Settings
from rowcall.worker.upkeep.cancel_requests import CancelRequests
from rowcall.worker.upkeep.heartbeat import Heartbeat
from rowcall.worker.upkeep.pruning import Pruning
from rowcall.worker.upkeep.recovery import Recovery

LAST_WORDS_SECONDS = 2.0


class Worker:
    """Runs jobs in this process until it is stopped.

    with jobs.worker(concurrency=20): ...
    async with jobs.worker(): ...
    """

    def __init__(self, core: Enqueueing, settings: Settings, ask: Callable[[], Stats] | None = None) -> None:
        self._core = core
        self.clock = core.clock
        self._settings = settings
        self._registrar = Registrar(core, settings)
        self._endpoint = (
            Endpoint(settings.metrics_host, settings.metrics_port, core.clock, ask, settings.concurrency, self._busy)
            if settings.metrics_port is not None and ask is not None
            else None
        )
        self._services: list[Service] = [] if self._endpoint is None else [self._endpoint]
        self._waker: Waker | None = None
        self._dispatcher: Dispatcher | None = None
        self._loop: Loop | None = None
        self._thread: threading.Thread | None = None
        self._stop_asked = threading.Event()
        self._forced = False
        self._forced_at = 0.0
        self._timer: threading.Timer | None = None
        self._process = os.getpid()
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self.exhausted = False
        """Whether every slot was held by a handler that ran past its timeout and could not be ended."""

    # starting and stopping: a second call of either does nothing

    def start(self, loop: asyncio.AbstractEventLoop | None = None, *, ready: Callable[[], None] | None = None) -> None:
        """Begin; async handlers run on `loop`, or on an event loop of the worker's own."""
        if self.ended.is_set():
            raise RuntimeError("a worker runs once; make another with jobs.worker()")
        if self._thread is not None:
            return
        self._prepare(loop)
        if ready is not None:
            ready()
        self._thread = threading.Thread(target=self._run, name="rowcall-loop", daemon=True)
        self._thread.start()

    def ask_to_stop(self, grace_seconds: float | None = None) -> None:
        """Stop claiming and finish what runs within the grace period; returns at once."""
        grace = self._settings.grace_seconds if grace_seconds is None else grace_seconds
        running = len(self._dispatcher.running()) if self._dispatcher is not None else 0
        if running and grace and not self._stop_asked.is_set():
            have = "1 running job has" if running == 1 else f"{running} running jobs have"
            logger.warning("worker %s stops; %s up to %g s to finish", self.name, have, grace)
        self._stop_asked.set()
        if self._loop is not None:
            self._loop.stop_claiming()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(grace, self._force)
        self._timer.daemon = True
        self._timer.start()
        self._ring()

    def stop_at_once(self) -> None:
        """Give back all that runs, without waiting for handlers to end."""
        self.ask_to_stop(0.0)
        if self._dispatcher is not None:
            self._dispatcher.stop_all()
        self._force_now()

    def stop(self, grace_seconds: float | None = None) -> None:
        """Stop, and wait until it has."""
        if self._thread is None or os.getpid() != self._process:
            return  # in a forked child there is nothing to stop: threads stay with the parent
        self.ask_to_stop(grace_seconds)
        self.ended.wait()
        self._thread.join()
        if self._timer is not None:
            self._timer.cancel()

    def drain(self) -> Summary:
        """Run all that is due now, in this thread's time, and return what came of it."""
        self._prepare(None)
        assert self._loop is not None
        loop = self._loop
        self._run(until_idle=True)
        if self.failure is not None:
            raise self.failure
        counts = loop.counts
        if counts:  # there may be no worker that goes on and does it
            self._core.write(lambda: fold(self._core.dialect, everything=False, now_ms=self._core.now_ms()))
        return Summary(
            succeeded=counts[Move.SUCCEED],
            failed=counts[Move.FAIL],
            retried=counts[Move.RETRY],
            snoozed=counts[Move.SNOOZE],
            cancelled=counts[Move.CANCEL],
            released=counts[Move.RELEASE],
        )

    async def adrain(self) -> Summary:
        """`drain`, in a thread. Cancelled, it claims nothing more, and ends when its handlers have."""
        try:
            return await finish_in_thread(self.drain, cancelled=self.ask_to_stop)
        finally:
            if self._timer is not None:
                self._timer.cancel()

    @property
    def stop_asked(self) -> bool:
        return self._stop_asked.is_set()

    @property
    def name(self) -> str:
        return self._registrar.name

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Worker:
        loop = asyncio.get_running_loop()
        try:
            await finish_in_thread(lambda: self.start(loop))
        except BaseException:
            await finish_in_thread(self.stop)  # it was cancelled, and has started all the same
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:  # the event loop is gone, and all handlers with it
            self.stop(0.0)
        else:
            await finish_in_thread(self.stop)

    def check_place(self) -> None:
        """Refuse, before anything is started, what would keep every worker on this host from starting."""
        self._core.ensure_schema()
        self._registrar.check_place()

    # the inside

    def _prepare(self, loop: asyncio.AbstractEventLoop | None) -> None:
        refuse_while_importing()
        core, settings, clock, outage = self._core, self._settings, self.clock, Outage(self.clock)
        core.ensure_schema()
        publish_limits(core)
        if self._endpoint is not None:
            self._endpoint.start()
        self._waker = Waker()
        self._dispatcher = Dispatcher(
            settings.concurrency,
            self._waker.wake_if_armed,
            clock,
            AsyncLane(loop) if loop is not None else None,
            limited_queues=settings.queues is not None,
            tasks=core.tasks,
            app=core.app_module,
        )
        self._dispatcher.warm_up()
        try:
            publish_schedules(core)
            self._registrar.register()
            completion = Completion(core)
            meter = self._endpoint.meter if self._endpoint is not None else None
            self._loop = Loop(core, settings, self._dispatcher, self._waker, self._registrar, completion, outage, meter)
        except BaseException:
            self._leave()
            self._waker.close()
            raise
        heartbeat = Heartbeat(core, self._registrar, self._declared_lost)
        recovery = Recovery(core, self._registrar, heartbeat, self._loop.mismatches)
        cancel_requests = CancelRequests(core, self._dispatcher)
        self._services += [
            Background("heartbeat", heartbeat.run, clock, outage=outage),
            Background("recovery", recovery.run, clock, outage=outage),
            Background("pruning", Pruning(core).run, clock, outage=outage),
            Background("cancel requests", cancel_requests.run, clock, wake=self._dispatcher.any_accepted),
            completion.progress.thread,
        ]

    def _busy(self) -> int:
        return self._settings.concurrency - self._dispatcher.free_slots if self._dispatcher is not None else 0

    def _run(self, *, until_idle: bool = False) -> None:
        assert self._loop is not None
        loop = self._loop
        try:
            if until_idle:  # what another worker lost is due, too
                recovery = Recovery(self._core, self._registrar, mismatches=loop.mismatches)
                recovery.check()
                recovery.held_jobs.look_at_all()
            for service in self._services:
                service.start()
            loop.run(lambda: self._finished(loop, until_idle))
        except BaseException as error:
            self.failure = error
            if isinstance(error, RowcallError):
                logger.error("worker %s ends: %s", self.name, error)
            elif isinstance(error, Exception):
                logger.exception("worker %s ends with an unexpected error", self.name)
        finally:
            self._leave()
            self.ended.set()
            if self._waker is not None:
                self._waker.close()

    def _finished(self, loop: Loop, until_idle: bool) -> bool:
        assert self._dispatcher is not None
        if self._dispatcher.is_exhausted and not self.exhausted and not self._stop_asked.is_set():
            self.exhausted = True  # for good, even if one of them ends after all: the decision takes several rounds
            logger.critical("all %d slots are held by handlers past their time-out", self._settings.concurrency)
            self._forced = True
        if not (self._stop_asked.is_set() or self.exhausted):
            return until_idle and loop.is_idle
        loop.stop_claiming()
        loop.release_unstarted()
        if self._forced:
            self._dispatcher.abandon_all(Released())
        busy = self._dispatcher.busy  # asked first: a run has ended before it is no longer running
        if self._dispatcher.has_ended or loop.unsettled:
            return self._is_overdue(loop)
        return self._forced or not busy

    def _is_overdue(self, loop: Loop) -> bool:
        """Whether the last words cannot be written: nothing is lost by leaving, as others will find the jobs."""
        if not self._forced or not loop.is_out_of_reach:
            return False
        self._forced_at = self._forced_at or self.clock.timer()
        overdue = self.clock.timer() - self._forced_at > LAST_WORDS_SECONDS
        if overdue:
            logger.error("%d jobs could not be settled or given back; others will find them", loop.unsettled)
        return overdue

    def _force(self) -> None:
        """The grace period is over: ask the handlers to end, give them a moment, release what goes on."""
        assert self._dispatcher is not None
        self._dispatcher.stop_all()
        self._timer = threading.Timer(LAST_WORDS_SECONDS, self._force_now)
        self._timer.daemon = True
        self._timer.start()
        self._ring()

    def _force_now(self) -> None:
        self._forced = True
        self._ring()

    def _leave(self) -> None:
        for service in self._services:
            service.stop()
        self._registrar.retire()
        if self._dispatcher is not None:
            self._dispatcher.close()
        for service in self._services:
            service.wait()
        self._registrar.close()

    def _declared_lost(self) -> None:
        if self._loop is not None:
            self._loop.declare_lost()
            self._ring()

    def _ring(self) -> None:
        if self._waker is not None and not self.ended.is_set():
            self._waker.wake()
