"""One world: a supervisor with its workers, apps that enqueue, people who steer, and what goes wrong."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest import mock

from rowcall import StoreUnavailable
from rowcall.domain.config import configure
from rowcall.drivers.liveness_file import LivenessFile
from rowcall.drivers.sqlite import write_gate
from rowcall.queue import Backend
from rowcall.worker import registrar
from rowcall.worker.process import supervisor as supervisor_module
from rowcall.worker.process.supervisor import Supervisor, obey
from tests.conformance.notes import Note
from tests.simulation import app
from tests.simulation.app import witness
from tests.simulation.database import MemoryFile, opener, pooled
from tests.simulation.decisions import Decisions
from tests.simulation.kernel import EventLoop, Machine, Pipes, SimulatedClock, close_event_loops, simulated_kernel
from tests.simulation.monitor import Ask, Monitor
from tests.simulation.primitives import Event, Thread, own_process, scheduler, simulated_threads
from tests.simulation.scenario import Scenario
from tests.simulation.scheduler import NEVER, Process, Scheduler
from tests.simulation.workload import Caller, Operation

MOST_POINTS = 60_000
LEASE_SECONDS = 2.0
GRACE_SECONDS = 1.0
FIRST_PID = 100


class OwnedLivenessFile(LivenessFile):
    """When its process is killed, the kernel closes it, and nothing is removed."""

    _is_let_go = False

    def __init__(self, folder: str, name: str, database: str = "") -> None:
        super().__init__(folder, name, database)
        own_process().at_death.append(self._die)

    def _die(self) -> None:
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        if not self._is_let_go:
            self._is_let_go = True
            super()._let_go()


class AtExit:
    """Like the module `atexit`, for each simulated process."""

    @staticmethod
    def register(call: Callable[[], None]) -> None:
        own_process().at_exit.append(call)

    @staticmethod
    def unregister(call: Callable[[], None]) -> None:
        with suppress(ValueError):
            own_process().at_exit.remove(call)


class Popen:
    """A child of the supervisor: a simulated process with a worker."""

    world: World

    def __init__(self, command: object, *, pass_fds: list[int], **options: object) -> None:
        self.returncode: int | None = None
        self._ended = Event()
        self._process = self.world.start_worker(pass_fds[0], self._end)
        self.pid = self._process.pid

    def _end(self, code: int) -> None:
        if self.returncode is None:
            self.returncode = code
            self._ended.set()

    def wait(self) -> int | None:
        self._ended.wait()
        return self.returncode

    def kill(self) -> None:
        self.world.kill(self._process)


class Signals:
    """The supervisor gets no signals: `Supervisor.reload` replaces its children."""

    def __init__(self, clock: object, received: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class World:
    def __init__(self, scenario: Scenario, decisions: Decisions, file: MemoryFile) -> None:
        self.scenario = scenario
        self.decisions = decisions
        self.file = file
        self.scheduler = Scheduler(decisions, most_points=MOST_POINTS)
        self.machine = Machine(scenario.seed)
        self.monitor = Monitor()
        self.workers: list[Process] = []
        self.callers: list[Process] = []
        self.supervisor: Supervisor | None = None
        self._pids = FIRST_PID
        self._left: dict[str, list[Operation]] = {}
        self.is_healed = False
        """Whether all calls are done, nothing is paused, and no schedule ticks."""
        decisions.world = self

    # its life

    @contextmanager
    def opened(self) -> Iterator[World]:
        self.file.empty()
        witness.seed, witness.notes, witness.is_recovered = self.scenario.seed, [], self._is_recovered
        with ExitStack() as stack:
            stack.enter_context(simulated_threads(self.scheduler))
            stack.enter_context(simulated_kernel(self.machine))
            stack.enter_context(pooled(self.file))
            stack.enter_context(self._replaced())
            try:
                yield self
            finally:
                self.scheduler.close()
                close_event_loops()
                for process in [*self.workers, *self.callers]:
                    self.scheduler.kill(process)
                for ticket in list(write_gate._open_tickets):
                    ticket.let_go()

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        child = type("Child", (Popen,), {"world": self})
        with (
            mock.patch.object(registrar, "LivenessFile", OwnedLivenessFile),
            mock.patch.object(registrar, "atexit", AtExit),
            mock.patch.object(supervisor_module, "os", Pipes()),
            mock.patch.object(supervisor_module, "Signals", Signals),
            mock.patch.object(
                supervisor_module, "subprocess", SimpleNamespace(Popen=child, DEVNULL=subprocess.DEVNULL)
            ),
        ):
            yield

    def begin(self) -> None:
        """Start the supervisor, which starts its workers, and all who call."""
        host = self._new_process("supervisor")

        def supervise() -> None:
            self.supervisor = Supervisor(["worker"], self.scenario.workers, GRACE_SECONDS, host.backend.clock)
            self.supervisor.run()

        self.scheduler.spawn("supervisor", host, supervise)
        for name, operations in self.scenario.by_caller().items():
            self._left[name] = list(operations)
            self._start_caller(name)

    def run_for(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        self.scheduler.run(is_over, self.scheduler.now + seconds)

    # processes

    def _new_process(self, name: str) -> Process:
        self._pids += 1
        process = Process(f"{name}-{self._pids}", self._pids)
        process.at_death.append(lambda: self.machine.free_locks_of(process))
        clock = SimulatedClock(self.machine, self._chance(process.name))
        process.backend = Backend(lambda: configure(self.file.url), clock)
        process.backend.open_database = opener(self.machine, self._committed)
        return process

    def _chance(self, name: str) -> random.Random:
        return random.Random(f"{self.scenario.seed} {name}")

    def start_worker(self, leash: int, ended: Callable[[int], None]) -> Process:
        process = self._new_process("worker")
        process.at_death.append(lambda: ended(-signal.SIGKILL))
        self.workers.append(process)

        def work() -> None:
            worker = app.jobs.worker(
                concurrency=self.scenario.concurrency, lease=LEASE_SECONDS, grace=GRACE_SECONDS, log_jobs="failures"
            )
            loop = EventLoop()
            Thread(target=loop.run_forever, name="event loop").start()
            obey(leash, worker)
            try:
                worker.start(loop)
            except StoreUnavailable:  # a statement was refused
                ended(1)
                self._exit(process)
            worker.ended.wait()
            if worker.failure is not None and not isinstance(worker.failure, StoreUnavailable):
                self.scheduler.stop(f"{process.name} ended with {worker.failure!r}")
            ended(0 if worker.failure is None else 1)
            self._exit(process)

        self.scheduler.spawn("main", process, work)
        return process

    def _start_caller(self, name: str) -> None:
        process = self._new_process(name)
        self.callers.append(process)

        def call() -> None:
            caller, left = Caller(app.jobs, self.scenario.seed), self._left[name]
            while left:
                scheduler().sleep(self.begun_at + left[0].at - scheduler().now)
                caller.call(left[0])
                del left[0]
            self._exit(process)

        self.scheduler.spawn("main", process, call)
        process.at_death.append(lambda: self._start_again(name))

    begun_at = 1000.0

    def _start_again(self, name: str) -> None:
        if self._left[name] and not self.scheduler.is_closing:
            self._start_caller(name)

    def _exit(self, process: Process) -> None:
        """Exit as an interpreter does."""
        while process.at_exit:
            process.at_exit.pop()()
        self.scheduler.kill(process)
        self.scheduler.sleep(NEVER)

    def kill(self, process: Process) -> None:
        witness.notes.append(Note("kill", process.pid, 0, 0))
        self.scheduler.kill(process)

    def freeze(self, process: Process, seconds: float) -> None:
        witness.notes.append(Note("stop", process.pid, 0, 0))
        self.scheduler.freeze(process, seconds)

    @property
    def living_workers(self) -> list[Process]:
        return [process for process in self.workers if not process.dead]

    @property
    def is_calm(self) -> bool:
        """Whether all calls are done."""
        return not any(self._left.values())

    @property
    def is_cleaned_up(self) -> bool:
        """Whether the dead are recovered, and a worker has looked at each rate that has opened."""
        pids = {process.pid for process in self.living_workers}
        are_recovered = all(_pid_of(name) in pids for (name,) in self.ask("select name from rowcall_worker"))
        return are_recovered and not self.ask("select 1 from rowcall_opening")

    def _committed(self, ask: Ask) -> None:
        problems = self.monitor.problems(ask, self._silent_for, LEASE_SECONDS, was_set=self.machine.was_set)
        for problem in list(problems):
            self.scheduler.stop(problem)

    def _silent_for(self, worker: str) -> float:
        if not any(process.pid == _pid_of(worker) for process in self.living_workers):
            return NEVER
        return self.scheduler.now - self.machine.heartbeats.get(worker, -NEVER)

    def _is_recovered(self, job_id: int, lease: int) -> bool:
        return (job_id, lease) in self.monitor.recovered

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.file.plain.ask(sql)

    # its end

    def heal(self) -> None:
        """End the faults. In the mode of liveness some workers, but not all, stay stopped for good."""
        self.machine.refused, self.machine.loses_next = None, False
        self.machine.wall_offset = self.machine.most_offset  # the clock is right again
        core = {*self.living_workers[-1:]}
        for process in self.living_workers:
            if self.scenario.mode == "safety" or process in core or process.frozen_until <= self.scheduler.now:
                process.frozen_until = 0.0
            elif process.in_transaction:
                self.kill(process)  # SQLite has one writer, and waits for it however long it is stopped
            else:
                process.held = True
        self._spawn_once("healer", self._calm)

    def _calm(self) -> None:
        # the first worker declares the schedules, and may start late
        while not self.is_calm or len(app.jobs.schedules()) < len(app.SCHEDULES):
            self.scheduler.sleep(0.1)
        for paused in app.jobs.paused():
            app.jobs.resume(**{paused.kind: paused.name})
        for schedule in app.jobs.schedules():
            app.jobs.pause_schedule(schedule.name)
        self.is_healed = True

    def _spawn_once(self, name: str, call: Callable[[], None]) -> None:
        process = self._new_process(name)
        self.callers.append(process)

        def run() -> None:
            call()
            self._exit(process)

        self.scheduler.spawn("main", process, run)

    def stop(self) -> None:
        """Stop the supervisor as SIGTERM does, and wait for its workers."""
        for process in self.living_workers:
            process.held = False
        assert self.supervisor is not None
        self.supervisor._receive(1)
        for _ in range(30):
            self.run_for(1)
            if not self.living_workers:
                return


def _pid_of(worker: str) -> int:
    return int(worker.rsplit(":", 2)[1])
