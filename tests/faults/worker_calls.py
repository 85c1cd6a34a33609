"""What workers do, as calls: their services, found by looking, and each method of a handler's context."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from unittest import mock

from rowcall import Context, Job, Rowcall
from rowcall.app import queue_of
from rowcall.queue import Queue
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker import settling
from rowcall.worker.registrar import Registrar
from rowcall.worker.service import Background
from rowcall.worker.settings import Settings
from rowcall.worker.upkeep.pruning import PruningDuties
from rowcall.worker.upkeep.recovery import Recovery
from rowcall.worker.worker import Worker
from tests.faults.call import Call, Threads, in_thread
from tests.faults.handlers import SIGNAL
from tests.faults.world import PATIENCE_SECONDS, App

# one worker after the other, without a job


def _recover(queue: Queue) -> None:
    Recovery(queue).check()


def _free_held(queue: Queue) -> None:
    Recovery(queue).held_jobs.check_all()


def _come_and_go(queue: Queue) -> None:
    registrar = Registrar(queue, Settings())
    registrar.register()
    registrar.retire(set)


def _upkeep(queue: Queue) -> None:
    PruningDuties(queue).round()


def _of_worker(work: Callable[[Queue], None]) -> Call:
    return in_thread(f"worker{work.__name__}", lambda app: work(queue_of(app.jobs)))


def _drain_in_two_threads(app: App) -> object:
    """Drain where each small group is settled by the thread that is there for large ones."""
    with mock.patch.object(settling, "LEAST_GROUP", 2):
        return app.jobs.drain()


DRAIN_BESIDE = in_thread("drain, other threads", _drain_in_two_threads, threads=Threads.OTHERS, is_steady=False)


# the services of a worker whose handler runs, has reported progress, and has a cancel request

ROUNDS, LOOKS_PER_ROUND = 3, 5
LONGEST_WAIT_SECONDS, SURVEY_SECONDS, SOME_REPORTS_SECONDS = 0.45, 20.0, 0.1
"""A pause up to the first is waited for. Where it is longer, the clock continues instead, until the next survey."""


class Rounds(Background):
    """Runs the work of a service for some rounds, in the thread that asks, instead of in its own. Errors are raised."""

    def __init__(self, service: Background, clock: FakeClock) -> None:
        service.stop()
        service.wait()
        super().__init__(service.name, service._work, clock, wake=service._wake)
        self._fake_clock = clock
        self._attempts, self._most = 0, ROUNDS

    def run(self) -> None:
        if self._wake is not None:
            super().pause(SOME_REPORTS_SECONDS)
            self._wake.set()
        self._work(self)

    def pause(self, seconds: float) -> bool:
        if self._wake is not None:
            self._wake.set()
        if seconds < LONGEST_WAIT_SECONDS:
            self._most = ROUNDS * LOOKS_PER_ROUND
            return super().pause(seconds) and not self.stopping()
        self._fake_clock.advance(max(seconds, SURVEY_SECONDS))
        return not self.stopping()

    def stopping(self) -> bool:
        return self._attempts >= self._most

    def attempt(self, step: Callable[[], object]) -> bool:
        self._attempts += 1
        step()
        return True


def service_names() -> list[str]:
    with Rowcall("sqlite:///:memory:") as jobs, jobs.worker() as worker:
        return sorted(_services_of(worker))


def _services_of(worker: Worker) -> dict[str, Background]:
    return {service.name: service for service in worker._services if isinstance(service, Background)}


def _service(name: str) -> Call:
    def prepare(app: App) -> list[Job]:
        job = app.jobs.enqueue("busy", queue="busy")
        app.gate.may_end.clear()
        app.start_worker("busy")
        assert app.gate.began.wait(PATIENCE_SECONDS)
        app.jobs.cancel(job)
        return [job]

    def make(app: App) -> None:
        clock = queue_of(app.jobs).clock
        assert isinstance(clock, FakeClock)
        Rounds(_services_of(app.workers[0])[name], clock).run()

    return in_thread(f"service {name}", make, prepare, Threads.OWN, is_steady=False)


# handlers


def _handled(name: str) -> Call:
    """Return a call that runs one job, whose handler uses a method of its context: the statements of its threads."""
    prepare = _PREPARED.get(name, lambda app: [app.jobs.enqueue(f"ctx_{name}", queue=name)])
    return in_thread(f"ctx.{name}", lambda app: app.jobs.drain(queues=[name]), prepare, Threads.OTHERS, is_steady=False)


def _signalled(app: App) -> list[Job]:
    job = app.jobs.enqueue("ctx_wait_for", queue="wait_for")
    app.jobs.signal(job, SIGNAL, 1)
    return [job]


def _blocked(name: str, app: App) -> list[Job]:
    first = app.jobs.enqueue("plain", queue="first")
    job = app.jobs.enqueue(f"ctx_{name}", queue=name, after=first)
    app.jobs.drain(queues=["first"])
    return [first, job]


def _chained(name: str, app: App) -> list[Job]:
    chain = app.jobs.start_chain([app.step.using(queue="first").bind(), app.last_steps[name].using(queue=name).bind()])
    app.jobs.drain(queues=["first"])
    return [app.jobs.get(chain.id), app.jobs.get(chain.current)]


_PREPARED: Mapping[str, Callable[[App], list[Job]]] = {
    **{name: partial(_blocked, name) for name in ("blockers", "ablockers")},
    **{name: partial(_chained, name) for name in ("previous", "aprevious")},
    "wait_for": _signalled,
}
WITHOUT_STATEMENTS = {
    "acomplete": "as `complete`, by the adapter of an async connection",
    "previous_as": "as `previous`",
    "blockers_as": "as `blockers`",
    "cancelled": "the worker's service asks, and the handler reads what that found",
    "job": "is known to the handler",
    "jobs": "are known to the handler",
    "resources": "come from the app",
}
"""Attributes of a context for which no statement is sent alone."""


def context_methods() -> list[str]:
    names = {name for name, _ in inspect.getmembers(Context) if not name.startswith("_")}
    return sorted(names - WITHOUT_STATEMENTS.keys())


def worker_calls() -> list[Call]:
    return [
        DRAIN_BESIDE,
        *(_of_worker(work) for work in (_recover, _free_held, _come_and_go, _upkeep)),
        *map(_service, service_names()),
        *map(_handled, context_methods()),
    ]
