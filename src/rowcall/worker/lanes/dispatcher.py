"""The slots and the buffer of one worker process, shared by its lanes."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from rowcall.base.clock import Clock
from rowcall.declare.declaration import Declaration, Lane
from rowcall.domain.lifecycle import Released, TimedOut
from rowcall.worker.attempt import Attempt, Stop
from rowcall.worker.isolation.lane import ProcessLane
from rowcall.worker.lanes.batch import Batch
from rowcall.worker.lanes.batch_gathering import Gathering
from rowcall.worker.lanes.lanes import AsyncLane, ThreadLane
from rowcall.worker.loop.attempt_log import log_abandoned
from rowcall.worker.loop.buffer_size import MOST_BUFFERED
from rowcall.worker.registrar import Identity

NO_TASKS: Mapping[str, Declaration] = {}


class Dispatcher:
    """At most `concurrency` runs at once; those that end make room for the buffered ones by themselves."""

    def __init__(
        self,
        concurrency: int,
        ring: Callable[[], None],
        clock: Clock,
        async_lane: AsyncLane | None,
        *,
        limited_queues: bool = False,
        tasks: Mapping[str, Declaration] = NO_TASKS,
        app: str | None = None,
    ) -> None:
        self._clock = clock
        self._timer = clock.timer
        self._limited_queues = limited_queues
        self._concurrency = concurrency
        self._ring = ring
        self._lock = threading.Lock()
        self._buffer: deque[Attempt] = deque()
        self._running: set[Attempt] = set()
        self._ended: deque[Attempt] = deque()
        self._in_queue: Counter[str] = Counter()
        self._deadlines: list[tuple[float, int, Attempt]] = []
        self._tie = itertools.count()
        self._abandoned: set[Attempt] = set()
        self._lingering: set[Attempt] = set()
        self._late: deque[Attempt] = deque()
        self.identity = Identity("", None)
        self.anything = threading.Event()
        """Set when something was accepted; whoever looks after what runs clears it when nothing does."""
        self.quiet_above = MOST_BUFFERED  # with more than that in the buffer, an end is not worth a wake-up
        self._threads = ThreadLane(self.finished)
        self._loop = async_lane or AsyncLane(None)
        self._loop.connect(self.finished, self.overdue)
        self._tasks = tasks
        self._app = app
        self._processes: ProcessLane | None = None
        self._gathering = Gathering(tasks)

    # what the loop asks

    @property
    def free_slots(self) -> int:
        with self._lock:  # not between the end of a run and the start of the next in its slot
            return self._concurrency - len(self._running)

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    @property
    def busy(self) -> bool:
        return bool(self._running)

    @property
    def exhausted(self) -> bool:
        """Whether every slot is held by a handler that was given up."""
        return len(self._abandoned) >= self._concurrency

    def in_flight(self, queue: str) -> int:
        return self._in_queue[queue]

    @property
    def batches(self) -> Mapping[str, int]:
        """How many jobs of a task one slot takes together, for those tasks that take several."""
        return self._gathering.sizes

    def rides(self) -> dict[str, int]:
        """How many more jobs those batches would take that wait for some."""
        if not self._gathering:
            return {}
        with self._lock:
            return self._gathering.rides()

    def reserve(self, claimed: int) -> None:
        """Let the liveness file have room for these beside all that may not have begun yet."""
        if (file := self.identity.liveness_file) is not None:
            with self._lock:
                held = len(self._buffer) + len(self._members() if self.batches else self._running)
            file.reserve(held + claimed)

    def accept(self, started: Sequence[Attempt], buffered: Sequence[Attempt], riding: Sequence[Attempt] = ()) -> None:
        if not self.anything.is_set():
            self.anything.set()
        if self.batches:
            started = self._gather(started, riding)
        with self._lock:
            self._running.update(started)
            if self._limited_queues:
                self._in_queue.update(
                    attempt.ready.queue for attempt in (*started, *buffered) if attempt.members is None
                )
            self._buffer.extend(buffered)
        for attempt in started:
            self._start(attempt)
        self._fill_slots()

    def _fill_slots(self) -> None:
        while (next_attempt := self._next_into_free_slot()) is not None:
            self._start(next_attempt)

    @property
    def has_ended(self) -> bool:
        return bool(self._ended or self._late)

    def take_ended(self) -> list[Attempt]:
        ended = []
        while self._ended:
            ended.append(self._ended.popleft())
        return ended

    @property
    def abandoned(self) -> set[tuple[int, int]]:
        """The attempts (ids and leases) of this worker that were settled while their handlers go on."""
        if not (self._abandoned or self._lingering):
            return set()
        with self._lock:
            return set(self._attempts(self._abandoned | self._lingering))

    def take_late(self) -> list[tuple[int, int]]:
        """Return the attempts that were abandoned, and whose handlers have ended since the last call."""
        late = []
        while self._late:
            late += self._attempts([self._late.popleft()])
        return late

    def _attempts(self, attempts: Iterable[Attempt]) -> list[tuple[int, int]]:
        """Leave out what was claimed under a former name: its ids may be those of other jobs by now."""
        members = (member for attempt in attempts for member in attempt.members or (attempt,))
        return [member.fence for member in members if member.identity is self.identity]

    def take_buffered(self) -> list[Attempt]:
        """Empty the buffer: what was never started is given back."""
        with self._lock:
            attempts = list(self._buffer)
            self._buffer.clear()
            if self._limited_queues:
                self._in_queue.subtract(attempt.ready.queue for attempt in attempts)
        return attempts

    def take_unstarted(self) -> list[Attempt]:
        return [*self.take_buffered(), *self.take_gathered()]

    def take_gathered(self) -> list[Attempt]:
        """Empty the batches that wait for more: what was never started is given back."""
        with self._lock:
            batches = self._gathering.take_all()
            self._give_up_slots(batches)
        return [attempt for batch in batches for attempt in batch.members]

    def _give_up_slots(self, batches: Sequence[Batch]) -> None:
        self._running.difference_update(batches)
        if self._limited_queues:
            self._in_queue.subtract(batch.ready.queue for batch in batches)

    def running(self) -> list[Attempt]:
        with self._lock:
            return self._members()

    def held(self) -> list[Attempt]:
        """All that runs, waits for its turn or has ended since the last time that was asked."""
        with self._lock:
            return [*self._members(), *self._buffer, *self._ended]

    def _members(self) -> list[Attempt]:
        return [member for attempt in self._running for member in attempt.members or (attempt,)]

    def unmarked(self, older_than_seconds: float) -> list[Attempt]:
        """Runs out of the buffer that go on for long enough for their rows to say so."""
        limit = self._clock.monotonic() - older_than_seconds
        return [
            attempt
            for attempt in self.running()
            # a completed one's row may be locked by its own handler
            if not (attempt.marked or attempt.settled or attempt.completed) and 0 < attempt.started_at < limit
        ]

    # time-outs: the loop's thread watches those of threads, the event loop its own

    def seconds_to_deadline(self) -> float | None:
        with self._lock:
            times = self._gathering.due_times()
            if self._deadlines:
                times.append(self._deadlines[0][0])
            return max(0.0, min(times) - self._timer()) if times else None

    def give_up_overdue(self) -> None:
        """Also start the batches that have waited for long enough."""
        if self._gathering:
            self._start_due()
        while True:
            with self._lock:
                if not self._deadlines or self._deadlines[0][0] > self._timer():
                    return
                attempt = heapq.heappop(self._deadlines)[2]
            if not attempt.settled and attempt.timeout_seconds is not None:
                outcome = TimedOut(attempt.timeout_seconds)
                attempt.stop(outcome)
                if attempt.task.lane is Lane.PROCESS:
                    with self._lock:
                        self._lingering.add(attempt)
                    self._child_processes().drop(attempt)
                else:
                    self.abandon(attempt, outcome)

    def overdue(self, attempt: Attempt) -> None:
        """An async handler that was cancelled for its time-out, and goes on all the same."""
        if attempt.timeout_seconds is not None:
            self.abandon(attempt, TimedOut(attempt.timeout_seconds))

    def abandon(self, attempt: Attempt, outcome: TimedOut | Released) -> None:
        """Settle a run whose handler goes on; its slot stays taken until the handler ends."""
        with self._lock:
            if attempt.settled or attempt not in self._running:
                return
            attempt.settled = True
            self._abandoned.add(attempt)
        if attempt.task.lane is Lane.PROCESS:
            self._child_processes().kill(attempt)  # before its job is anybody else's
        attempt.give_up(outcome)
        if isinstance(outcome, TimedOut):
            log_abandoned(attempt)
        self._put_ended(attempt)
        self._ring()

    def abandon_all(self, outcome: Released) -> None:
        with self._lock:
            attempts = list(self._running)
        for attempt in attempts:
            self.abandon(attempt, outcome)

    def stop_all(self) -> None:
        """Ask every running handler to end: its job will be released."""
        with self._lock:
            attempts = list(self._running)
        for attempt in attempts:
            self.cancel(attempt, Released())

    def cancel(self, attempt: Attempt, because: Stop) -> None:
        """Ask one handler to end, unless it was asked before: an async one is cancelled, a process is terminated at
        once and killed after a grace period, a thread can only look at `ctx.cancelled`. A batch is asked to end when
        nobody waits for any of its jobs. What waits for its turn never begins.
        """
        if self._take_out_of_buffer(attempt) or self._take_out_of_batch(attempt):
            attempt.stop(because)
            attempt.give_up(because)
            self._put_ended(attempt)
            self._fill_slots()
            self._ring()
            return
        if attempt.stopped_because is not None:
            return
        attempt.stop(because)
        if attempt.batch is not None:
            if all(member.stopped_because is not None for member in attempt.batch.members or ()):
                self.cancel(attempt.batch, because)
            return
        match attempt.task.lane:
            case Lane.LOOP:
                self._loop.cancel(attempt)
            case Lane.PROCESS:
                self._child_processes().cancel(attempt)

    def _take_out_of_buffer(self, attempt: Attempt) -> bool:
        with self._lock:
            if attempt not in self._buffer:
                return False
            self._buffer.remove(attempt)
            if self._limited_queues:
                self._in_queue[attempt.ready.queue] -= 1
            attempt.settled = True
        return True

    def _take_out_of_batch(self, attempt: Attempt) -> bool:
        """Whether it waited for a batch that has not begun."""
        with self._lock:
            batch = self._gathering.take_out(attempt)
            if batch is None:
                return False
            attempt.settled = True
            if not batch.members:
                self._give_up_slots([batch])
        return True

    def warm_up(self) -> None:
        """Start a first child process, if there is a task for one."""
        if any(task.lane is Lane.PROCESS for task in self._tasks.values()):
            self._child_processes().warm_up()

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()
        self._threads.close()
        self._loop.close()

    # what the lanes tell

    def finished(self, attempt: Attempt) -> Attempt | None:
        """A handler has ended. Gives the next run for the same lane, if there is one."""
        with self._lock:
            if attempt.settled:
                self._abandoned.discard(attempt)
                self._late.append(attempt)
            else:
                attempt.settled = True
                if attempt.members is None:
                    self._ended.append(attempt)
                else:
                    self._put_ended(attempt)
            self._running.discard(attempt)
            if self._limited_queues:
                self._in_queue[attempt.ready.queue] -= 1
            next_attempt = self._pop_buffered()
            quiet = next_attempt is not None and len(self._buffer) > self.quiet_above
        if not quiet:
            self._ring()
        if next_attempt is None:
            return None
        self._watch(next_attempt)
        if next_attempt.task.lane is attempt.task.lane:
            return next_attempt
        self._hand_over(next_attempt)
        return None

    def _process_gone(self, attempt: Attempt) -> None:
        """The process of a run that was past its time has ended."""
        with self._lock:
            self._lingering.discard(attempt)
            self._late.append(attempt)
        self._ring()

    def _put_ended(self, attempt: Attempt) -> None:
        for member in attempt.members or (attempt,):
            member.settled = True
            self._ended.append(member)

    # batches

    def _gather(self, started: Sequence[Attempt], riding: Sequence[Attempt]) -> list[Attempt]:
        """Put those of batch tasks into the batch that waits for them; gives what starts now."""
        with self._lock:
            ready, opened = self._gathering.put(started, riding, self._timer())
            self._running.update(opened)
            if self._limited_queues:
                self._in_queue.update(batch.ready.queue for batch in opened)
        return ready

    def _start_due(self) -> None:
        with self._lock:
            due = self._gathering.take_due(self._timer())
        for batch in due:
            self._start(batch)

    def _next_into_free_slot(self) -> Attempt | None:
        with self._lock:
            attempt = self._pop_buffered() if len(self._running) < self._concurrency else None
        if attempt is not None:
            self._watch(attempt)
        return attempt

    def _pop_buffered(self) -> Attempt | None:
        if not self._buffer:
            return None
        attempt = self._buffer.popleft()
        self._running.add(attempt)
        return attempt

    def _start(self, attempt: Attempt) -> None:
        if attempt.marked:
            self._watch(attempt)
        self._hand_over(attempt)

    def _hand_over(self, attempt: Attempt) -> None:
        match attempt.task.lane:
            case Lane.LOOP:
                self._loop.start(attempt)
            case Lane.THREAD:
                self._threads.start(attempt)
            case Lane.PROCESS:
                self._child_processes().start(attempt)

    def _child_processes(self) -> ProcessLane:
        with self._lock:
            if self._processes is None:
                self._processes = ProcessLane(
                    self._clock,
                    self.finished,
                    self._watch_now,
                    self._process_gone,
                    self._concurrency,
                    self._tasks.values(),
                    self._app,
                )
            return self._processes

    def _watch(self, attempt: Attempt) -> None:
        """The event loop watches its own runs, and a process may still have to be started."""
        if attempt.timeout_seconds is not None and attempt.task.lane is Lane.THREAD:
            self._watch_now(attempt)

    def _watch_now(self, attempt: Attempt) -> None:
        if attempt.timeout_seconds is not None:
            with self._lock:
                if len(self._deadlines) > 2 * self._concurrency + MOST_BUFFERED:
                    self._deadlines = [entry for entry in self._deadlines if not entry[2].settled]
                    heapq.heapify(self._deadlines)
                entry = (self._timer() + attempt.timeout_seconds, next(self._tie), attempt)
                heapq.heappush(self._deadlines, entry)
                is_first = self._deadlines[0] is entry
            if is_first:
                self._ring()
