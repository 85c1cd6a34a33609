"""What a simulated process asks of its system: clocks, file locks, notifications of writes, pipes, random numbers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import random
import secrets
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from unittest import mock

from rowcall.base import clock
from rowcall.base.clock import SystemClock
from rowcall.drivers.sqlite import write_gate
from rowcall.operations import results
from rowcall.wake import waiter_and_file_watch as waiter
from rowcall.worker import registrar
from rowcall.worker import worker as worker_module
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes.batch_calls import BatchCall
from tests.simulation.primitives import Event, own_process, scheduler
from tests.simulation.scheduler import NEVER, Actor, Killed, Process

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Machine:
    """One host: its wall clock, its file locks, and who watches its files."""

    def __init__(self, seed: str) -> None:
        self.wall_offset = self.most_offset = 0.0
        self.watches: list[FileWatch] = []
        self.was_set = False
        self.heartbeats: dict[str, float] = {}
        """When each worker has sent its last one, by its name."""
        self.loses_next = False
        """Whether the next write notifies no one."""
        self.refused: Exception | None = None
        """What the next statement fails with."""
        self.chance = random.Random(f"{seed} kernel")
        self._locks: dict[int, tuple[Process, int]] = {}
        self._waiting: dict[int, deque[Actor]] = defaultdict(deque)

    def now(self) -> datetime:
        return START + timedelta(seconds=scheduler().now + self.wall_offset)

    def jump(self, seconds: float) -> None:
        """Set the wall clock."""
        self.was_set = True
        self.wall_offset += seconds
        self.most_offset = max(self.most_offset, self.wall_offset)

    def note_write(self) -> None:
        """The log of the database is written: all who watch it are notified, before the commit."""
        if self.loses_next:
            self.loses_next = False
            return
        for watch in self.watches:
            watch.note_write()

    def note_heartbeat(self, names: list[str]) -> None:
        self.heartbeats.update(dict.fromkeys(names, scheduler().now))

    # flock(2)

    LOCK_EX, LOCK_NB, LOCK_UN = fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN

    def flock(self, descriptor: int, flags: int) -> None:
        file, process = os.fstat(descriptor).st_ino, own_process()
        if flags & self.LOCK_UN:
            if file in self._locks and self._locks[file][1] == descriptor:
                self._unlock(file)
            return
        while file in self._locks and self._locks[file][1] != descriptor:
            if flags & self.LOCK_NB:
                raise BlockingIOError(errno.EWOULDBLOCK, "locked")
            current = scheduler().current
            assert current is not None
            self._waiting[file].append(current)
            scheduler().block()
        self._locks[file] = process, descriptor

    def _unlock(self, file: int) -> None:
        del self._locks[file]
        waiting = self._waiting[file]
        while waiting:  # all of them: one may be dead or stopped
            scheduler().wake(waiting.popleft())

    def free_locks_of(self, process: Process) -> None:
        for file in [file for file, (owner, _) in self._locks.items() if owner is process]:
            self._unlock(file)


class SimulatedClock(SystemClock):
    """The clock of one process. All processes of a machine share its wall clock."""

    def __init__(self, machine: Machine, chance: random.Random) -> None:
        self._machine = machine
        self._random = chance
        self.wall = lambda: machine.now().timestamp()
        self.monotonic = self.timer = lambda: scheduler().now
        self.sleep = lambda seconds: scheduler().sleep(seconds)
        self.chance = chance.random

    def now(self) -> datetime:
        return self._machine.now()


class Waker:
    """Like `rowcall.wake.waiter_and_file_watch.Waker`, without a pipe."""

    def __init__(self) -> None:
        self.pending = False
        self.watches: list[FileWatch] = []
        self._armed = False

    def wake(self) -> None:
        self.pending = True
        for watch in self.watches:
            watch.wake()

    def arm(self) -> None:
        self._armed = True

    def wake_if_armed(self) -> None:
        if self._armed:
            self._armed = False
            self.wake()

    def clear(self) -> None:
        self.pending = False

    def close(self) -> None:
        pass


class FileWatch:
    """Like `InotifyWatch` of `rowcall.wake`: it reports writes to the log, also those of the process itself."""

    early = True

    def __init__(self, waker: Waker, machine: Machine) -> None:
        self._waker = waker
        self._machine = machine
        self._written = False
        self._waiting: Actor | None = None
        self._files = False
        waker.watches.append(self)
        machine.watches.append(self)

    def note_write(self) -> None:
        self._written = True
        if self._files:
            self.wake()

    def wake(self) -> None:
        if self._waiting is not None:
            scheduler().wake(self._waiting)

    def wait(self, seconds: float, *, files: bool) -> tuple[bool, bool]:
        world = scheduler()
        world.check_closing()
        until = world.now + max(0.0, seconds)
        self._waiting, self._files = world.current, files
        while not (self._waker.pending or (files and self._written)) and world.now < until:
            world.block(until)
        self._waiting, self._files = None, False
        woken, written = self._waker.pending, files and self._written
        self._waker.pending = False
        self._written = self._written and not files
        return woken, written

    def close(self) -> None:
        if self in self._machine.watches:
            self._machine.watches.remove(self)


class EventLoop(asyncio.BaseEventLoop):
    """An event loop under virtual time. Each of its turns is a point of the schedule."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._awake = Event()
        _event_loops.append(self)

    def time(self) -> float:
        return scheduler().now

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None or timeout > 0:
            self._awake.wait(timeout)
        self._awake.clear()
        scheduler().point("await")
        return []

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._awake.set()


_event_loops: list[EventLoop] = []


def close_event_loops() -> None:
    """End what is left of them while the world is closing, not when they are collected."""
    while _event_loops:
        loop = _event_loops.pop()
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(Killed, RuntimeError):
                task.get_coro().close()
        with contextlib.suppress(Killed, RuntimeError):
            loop.close()


class Pipes:
    """What the supervisor uses of `os`: a pipe to each child, and the exit of a child."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[deque[bytes], list[Actor], set[int]]] = {}
        self._next = 10_000

    def pipe(self) -> tuple[int, int]:
        reading, writing = self._next, self._next + 1
        self._next += 2
        shared: tuple[deque[bytes], list[Actor], set[int]] = (deque(), [], {writing})
        self._ends[reading] = self._ends[writing] = shared
        return reading, writing

    def read(self, descriptor: int, size: int) -> bytes:
        data, waiting, writers = self._ends[descriptor]
        while not data and writers:
            current = scheduler().current
            assert current is not None
            waiting.append(current)
            scheduler().block()
        return data.popleft() if data else b""

    def write(self, descriptor: int, data: bytes) -> None:
        self._ends[descriptor][0].append(data)
        self._wake(descriptor)

    def close(self, descriptor: int) -> None:
        if descriptor in self._ends and descriptor in self._ends[descriptor][2]:
            self._ends[descriptor][2].discard(descriptor)
            self._wake(descriptor)

    def _wake(self, descriptor: int) -> None:
        waiting = self._ends[descriptor][1]
        while waiting:
            scheduler().wake(waiting.pop())

    def _exit(self, code: int) -> None:
        scheduler().kill(own_process())
        scheduler().sleep(NEVER)


def _identity_of(attempt: Attempt) -> int:
    return hash(attempt.fence)


def _identity_of_batch(batch: BatchCall) -> int:
    return hash((batch.ready.id, batch.ready.lease))


@contextmanager
def simulated_kernel(machine: Machine) -> Iterator[None]:
    """Replace what production code asks of the system. Random numbers and the order of sets depend on the seed only."""
    ours = SimulatedClock(machine, machine.chance)
    numbers = iter(range(1, 1 << 30))
    with ExitStack() as stack:

        def replace(target: object, name: str, value: object) -> None:
            stack.enter_context(mock.patch.object(target, name, value))

        # not `wall`, which drivers compare with the times of files
        for name in ("monotonic", "timer", "sleep", "chance"):
            replace(clock.SYSTEM_CLOCK, name, getattr(ours, name))
        replace(secrets, "token_hex", lambda size=8: f"{machine.chance.getrandbits(8 * size):0{2 * size}x}")
        replace(secrets, "randbits", machine.chance.getrandbits)
        replace(write_gate, "_locking", machine)
        replace(waiter, "watch", lambda paths, waker: FileWatch(waker, machine))
        for module in (worker_module, results):
            replace(module, "Waker", Waker)
        replace(registrar, "worker_name", lambda: f"sim:{own_process().pid}:{next(numbers)}")
        # hashes of addresses would make the order of sets differ from run to run
        replace(Attempt, "__hash__", _identity_of)
        replace(BatchCall, "__hash__", _identity_of_batch)
        yield
