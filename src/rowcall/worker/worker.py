"""A worker: started, stopped, drained."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import TracebackType

from rowcall.context import logger
from rowcall.domain.errors import LifespanFailed, MovedTo, RowcallError, SchemaMismatch
from rowcall.domain.job import Summary
from rowcall.domain.outcome import Released
from rowcall.drivers.patience import UPKEEP, patience
from rowcall.drivers.uncancellable import finish_in_thread
from rowcall.observe.meter import QueueFacts
from rowcall.observe.metrics_server import MetricsEndpoint, Probes
from rowcall.operations.effects import Read, Write
from rowcall.operations.schedules import publish_schedules
from rowcall.overview.alerting import Watcher, alerts_of
from rowcall.overview.liveness import database_time
from rowcall.queue import Queue
from rowcall.store.counts.tallies import fold
from rowcall.store.limits.admission import put_quotas, quotas
from rowcall.wake.waiter_and_file_watch import Waker
from rowcall.worker.attempt_log import summary_of
from rowcall.worker.completion import Completion
from rowcall.worker.isolation.import_guard import refuse_while_importing
from rowcall.worker.isolation.lane import ChildSetup
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.lifespan import Lifespans
from rowcall.worker.loop import Loop
from rowcall.worker.outage import Outage
from rowcall.worker.output import KeepEverything
from rowcall.worker.raised_errors import RaisedErrors
from rowcall.worker.registrar import Registrar
from rowcall.worker.service import Background, Service
from rowcall.worker.settings import Settings
from rowcall.worker.stopping import Shutdown
from rowcall.worker.upkeep.cancel_requests import CancelRequests
from rowcall.worker.upkeep.heartbeat import Heartbeat
from rowcall.worker.upkeep.pruning import PruningDuties
from rowcall.worker.upkeep.recovery import Recovery


class Worker:
    """Runs jobs in this process until it is stopped.

    with jobs.worker(concurrency=20): ...
    async with jobs.worker(): ...
    """

    def __init__(self, queue: Queue, settings: Settings, ask: Callable[[], QueueFacts] | None = None) -> None:
        self._whole_queue = queue
        self.clock = queue.clock
        self._settings = settings
        self._ask = ask
        self._shutdown = Shutdown(queue.clock, self._stop_handlers, self._wake)
        self._waker: Waker | None = None
        self._dispatcher: Dispatcher | None = None
        self._loop: Loop | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._arrive()
        self._errors: RaisedErrors | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._keep_everything = KeepEverything()
        self._asked_to_turn: list[threading.Event] = []
        self._counts: Counter[str] = Counter()
        self.ended = threading.Event()
        self.exhausted = False
        """Whether every slot was held by a handler that ran past its timeout and could not be ended."""

    def _arrive(self) -> None:
        """Begin in the database where the queue is now."""
        self._queue = queue = self._whole_queue.settled()
        self._registrar = Registrar(queue, settings := self._settings)
        self._endpoint = (
            MetricsEndpoint(
                settings.metrics_host,
                settings.metrics_port,
                queue.clock,
                self._ask,
                settings.concurrency,
                self._busy,
                Probes(queue.clock, self._turns, self._state, partial(database_time, queue)),
            )
            if settings.metrics_port is not None and self._ask is not None
            else None
        )
        self._services: list[Service] = [] if self._endpoint is None else [self._endpoint]
        self._lifespans = Lifespans()
        self.failure: BaseException | None = None

    @property
    def name(self) -> str:
        return self._registrar.name

    def __repr__(self) -> str:
        return f"<Worker {self.name}: concurrency {self._settings.concurrency}, queues {self._settings.queues_text}>"

    # starting and stopping: a second call of either does nothing

    def start(self, loop: asyncio.AbstractEventLoop | None = None, *, ready: Callable[[], None] | None = None) -> None:
        """Start in a thread. Async handlers run on `loop`, or on the worker's own event loop."""
        if self.ended.is_set():
            raise RuntimeError("a worker runs once; make another with jobs.worker()")
        if self._thread is not None:
            return
        self._prepare_here(loop)
        if ready is not None:
            ready()
        self._thread = threading.Thread(target=self._run, name="rowcall-loop", daemon=True)
        self._thread.start()

    @property
    def stop_asked(self) -> bool:
        return self._shutdown.is_asked

    def ask_to_stop(self, grace_seconds: float | None = None) -> None:
        """Stop claiming, and let running jobs finish within the grace period. Return at once."""
        grace = self._settings.grace_seconds if grace_seconds is None else grace_seconds
        running = len(self._dispatcher.running()) if self._dispatcher is not None else 0
        is_news = running and grace and not self.stop_asked
        if self._loop is not None:
            self._loop.stop_claiming()
        self._shutdown.ask(grace)
        if is_news:  # last: a reader of the line may enqueue jobs that must not start here
            have = "1 running job has" if running == 1 else f"{running} running jobs have"
            logger.info("worker %s stops; %s up to %g s to finish", self.name, have, grace)

    def stop_at_once(self) -> None:
        """Release all running jobs, without waiting for handlers to end."""
        self.ask_to_stop(0.0)
        self._stop_handlers()
        self._shutdown.force()

    def stop(self, grace_seconds: float | None = None) -> None:
        """Stop, and wait until it has ended."""
        if self._thread is None or os.getpid() != self._pid:
            return  # in a forked child there is nothing to stop: threads stay with the parent
        self.ask_to_stop(grace_seconds)
        self._lifespans.leave_later()
        self.ended.wait()
        self._thread.join()
        self._shutdown.cancel_timer()

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
            await finish_in_thread(self.stop)  # `start` was cancelled, but has started it
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:  # the event loop is gone, and all handlers with it
            self.stop(0.0)
        else:
            await finish_in_thread(self.stop)

    # draining

    def drain(self, errors: RaisedErrors | None = None) -> Summary:
        """Run all jobs that are due now, and return how their attempts ended. `errors` keeps what they raised."""
        self._errors = errors
        self._prepare_here(None)
        self._run(until_idle=True)
        counts = self._counts
        if self.failure is not None:
            raise self.failure
        if counts:  # there may be no other worker that folds the tallies
            self._queue.run(Write(fold, self._queue.dialect, everything=False))
        return summary_of(counts)

    async def adrain(self, errors: RaisedErrors | None = None) -> Summary:
        """`drain`, in a thread. If cancelled, it claims nothing more, and returns when its handlers have ended."""
        try:
            return await finish_in_thread(partial(self.drain, errors), cancelled=self.ask_to_stop)
        finally:
            self._shutdown.cancel_timer()

    def check_folder(self) -> None:
        """Raise, before anything is started, what would keep every worker on this host from starting."""
        self._queue.backend.ensure_schema()
        self._registrar.check_folder()

    # the inside

    def _prepare_here(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Prepare where the queue is, even if it is just moving."""
        following = self._whole_queue.following
        try:
            self._prepare(loop)
        except MovedTo as error:
            if following is None or not following.follow(error):
                raise
            self._arrive()
            self._prepare(loop)

    def _prepare(self, loop: asyncio.AbstractEventLoop | None) -> None:
        refuse_while_importing()
        self._event_loop = loop
        queue, settings = self._queue, self._settings
        queue.declared.finish()
        queue.backend.ensure_schema()
        _publish_limits(queue)
        if self._endpoint is not None:
            self._endpoint.start()
        self._waker = Waker()
        self._dispatcher = Dispatcher(
            settings.concurrency,
            self._waker.wake_if_armed,
            self.clock,
            loop,
            limited_queues=settings.queues is not None,
            tasks=queue.declared.tasks,
            child_setup=ChildSetup(queue.declared.app_module, queue.declared.lifespan, self._lifespan_failed),
        )
        try:
            # before it is registered, as this may take longer than a lease
            self._lifespans.enter(
                queue.declared.lifespan, queue.declared.handlers.held_by_worker(), self._dispatcher.event_loop
            )
            self._dispatcher.warm_up()
            publish_schedules(queue)
            self._registrar.register()
            self._loop = self._make_loop(self._dispatcher, self._waker)
        except BaseException:
            self._leave()
            self._waker.close()
            raise

    def _make_loop(self, dispatcher: Dispatcher, waker: Waker) -> Loop:
        queue, clock, outage, completion = self._queue, self.clock, Outage(self.clock), Completion(self._queue)
        completion.resources, completion.worker_values = self._lifespans.resources, self._lifespans.values
        options = queue.config.job_log
        if options is not None and options.everything:
            logging.getLogger().addHandler(self._keep_everything)
        completion.keeps_errors = self._errors is not None
        meter = self._endpoint.meter if self._endpoint is not None else None
        loop = Loop(queue, self._settings, dispatcher, waker, self._registrar, completion, outage, meter, self._errors)
        heartbeat = Heartbeat(queue, self._registrar, self._declared_lost)
        recovery = Recovery(queue, self._registrar, heartbeat, loop.unknown, meter)
        cancel_requests = CancelRequests(queue, dispatcher)
        self._services += [
            Background("heartbeat", heartbeat.run, clock, outage=outage),
            Background("recovery", recovery.run, clock, outage=outage),
            Background("pruning", PruningDuties(queue).run, clock, outage=outage),
            Background("cancel requests", cancel_requests.run, clock, wake=dispatcher.any_accepted),
            completion.progress.thread,
            completion.streams.thread,
        ]
        return loop

    def _run(self, *, until_idle: bool = False) -> None:
        self._run_here(until_idle=until_idle)
        while self._moves_on():
            self._run_here(until_idle=until_idle)
        self.ended.set()
        if self._waker is not None:
            self._waker.close()

    def _moves_on(self) -> bool:
        """Follow the queue to another database, if it has moved. Return whether there is more to run."""
        following, former = self._whole_queue.following, self._waker
        if not isinstance(self.failure, MovedTo) or following is None or self.stop_asked:
            return False
        try:
            if not following.follow(self.failure):
                return False
            self._arrive()
            self._prepare_here(self._event_loop)
        except BaseException as error:
            self.failure = error
            logger.error("worker %s ends: it could not follow the queue: %s", self.name, error)
            return False
        finally:
            if former is not None and former is not self._waker:
                former.close()
        return True

    @patience(UPKEEP)
    def _run_here(self, *, until_idle: bool) -> None:
        assert self._loop is not None
        loop = self._loop
        try:
            if until_idle:  # jobs of lost workers are due, too
                recovery = Recovery(self._queue, self._registrar)
                recovery.check()
                recovery.held_jobs.check_all()
            elif (alerts := alerts_of(self._queue)) is not None:
                watcher = Watcher(self._queue, alerts)
                self._services.append(Background("alerts", lambda thread: watcher.watch(thread.pause), self.clock))
            for service in self._services:
                service.start()
            loop.run(lambda: self._is_finished(loop, until_idle))
        except BaseException as error:
            if isinstance(error, SchemaMismatch):
                error = self._queue.backend.explained(error)
            self.failure = error
            if isinstance(error, MovedTo) and self._whole_queue.following is not None:
                logger.info("worker %s follows the queue to another database", self.name)
            elif isinstance(error, RowcallError):
                logger.error("worker %s ends: %s", self.name, error)
            elif isinstance(error, Exception):
                logger.exception("worker %s ends with an unexpected error", self.name)
        finally:
            self._counts += loop.counts
            loop.close()
            self._leave()

    def _is_finished(self, loop: Loop, until_idle: bool) -> bool:
        assert self._dispatcher is not None
        while self._asked_to_turn:
            self._asked_to_turn.pop().set()
        if self._dispatcher.is_exhausted and not self.exhausted and not self.stop_asked:
            self.exhausted = True  # for good, even if one of them ends after all: the decision takes several rounds
            logger.critical("all %d slots are held by handlers past their timeout", self._settings.concurrency)
            self._shutdown.is_forced = True
        if not (self.stop_asked or self.exhausted):
            return until_idle and loop.is_idle
        loop.stop_claiming()
        loop.release_unstarted()
        if self._shutdown.is_forced:
            self._dispatcher.abandon_all(Released())
        busy = self._dispatcher.busy  # read first: an attempt has ended before it stops running
        if self._dispatcher.has_ended or loop.unsettled:
            return self._shutdown.is_overdue(loop.unsettled, out_of_reach=loop.is_out_of_reach)
        return self._shutdown.is_forced or not busy

    def _leave(self) -> None:
        logging.getLogger().removeHandler(self._keep_everything)
        for service in self._services:
            service.stop()
        retired = self._registrar.retire(self._abandoned)
        self.failure = self._lifespans.leave() or self.failure
        if self._dispatcher is not None:
            self._dispatcher.close()
        for service in self._services:
            service.wait()
        if retired:
            self._registrar.close()
        else:
            self._registrar.keep(self._abandoned)

    def _stop_handlers(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.stop_all()

    def _lifespan_failed(self, error: LifespanFailed) -> None:
        """Called when a child process could not enter the lifespan."""
        self.failure = error
        logger.error("worker %s ends: %s", self.name, error)
        self.ask_to_stop()

    def _declared_lost(self) -> None:
        if self._loop is not None:
            self._loop.declare_lost()
            self._wake()

    def _abandoned(self) -> set[tuple[int, int]]:
        return self._dispatcher.abandoned if self._dispatcher is not None else set()

    def _turns(self, seconds: float) -> bool:
        """Return whether the loop takes another turn within that time."""
        turned = threading.Event()
        self._asked_to_turn.append(turned)
        self._wake()
        return self.clock.wait(turned, seconds)

    def _state(self) -> str:
        """Return what to say about a worker that does not simply run, or an empty text."""
        if self.ended.is_set():
            return "the worker has ended"
        if self.stop_asked:
            return "the worker is stopping"
        return "" if self._loop is not None else "the worker is starting"

    def _busy(self) -> int:
        return self._dispatcher.used_slots if self._dispatcher is not None else 0

    def _wake(self) -> None:
        if self._waker is not None and not self.ended.is_set():
            self._waker.wake()


def _publish_limits(queue: Queue) -> None:
    """Write the numbers of the limits declared here. The last process that declares a limit decides them."""
    if declared := queue.declared.limits.numbers:
        known = queue.run(Read(quotas(queue.dialect)))
        changed = {name: numbers for name, numbers in declared.items() if known.get(name) != numbers}
        if changed:
            queue.run(Write(put_quotas, queue.dialect, changed))
