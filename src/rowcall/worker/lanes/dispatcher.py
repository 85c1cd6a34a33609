"""The slots and the buffer of one worker process, shared by its lanes."""

from __future__ import annotations

import itertools
import threading
from asyncio import AbstractEventLoop
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from rowcall.base.clock import Clock
from rowcall.declare.declaration import Declaration, Lane
from rowcall.domain.job import StackFrame
from rowcall.domain.outcome import Released, TimedOut
from rowcall.worker.attempt import Attempt, Stop
from rowcall.worker.attempt_log import log_abandoned
from rowcall.worker.isolation.lane import ChildSetup, ProcessLane
from rowcall.worker.lanes.abandoned import Abandoned
from rowcall.worker.lanes.async_lane import AsyncLane
from rowcall.worker.lanes.batch_calls import BatchCall, Call, CallFinished, Gathering
from rowcall.worker.lanes.deadlines import Deadlines
from rowcall.worker.lanes.handler_stack import stack_of
from rowcall.worker.lanes.thread_lane import ThreadLane
from rowcall.worker.pace import MOST_BUFFERED
from rowcall.worker.registrar import Identity

NO_TASKS: Mapping[str, Declaration] = {}
NO_SETUP = ChildSetup()


class Dispatcher:
    """At most `concurrency` attempts run at once; an attempt that ends starts the next one from the buffer."""

    def __init__(
        self,
        concurrency: int,
        wake: Callable[[], None],
        clock: Clock,
        event_loop: AbstractEventLoop | None,
        *,
        limited_queues: bool = False,
        tasks: Mapping[str, Declaration] = NO_TASKS,
        child_setup: ChildSetup = NO_SETUP,
    ) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._wake = wake
        self._lock = threading.Lock()
        self._buffer: deque[Attempt] = deque()
        self._accepted: deque[Call] = deque()
        self._charged: list[Attempt] = []
        self._portion = 0
        self.stopping = False
        """Whether nothing more may start: what has not started is released."""
        self._running: set[Call] = set()
        self._ended: list[Attempt] = []
        self._in_queue: Counter[str] | None = Counter() if limited_queues else None
        self._deadlines = Deadlines(2 * concurrency + MOST_BUFFERED)
        self._abandoned = Abandoned()
        self._gathering = Gathering(tasks)
        self.any_accepted = threading.Event()
        """Set when attempts were accepted; cleared by `CancelRequests` when nothing runs."""
        self._changes = itertools.count(1)
        self.generation = 0
        """A new number after each change that the loop must not miss before it waits."""
        self.quiet_above = MOST_BUFFERED
        """With more attempts than that in the buffer, the end of one is not worth a wake-up."""

        def new_process_lane() -> ProcessLane:
            called = self.finished, self._watch, self._process_gone
            return ProcessLane(clock, *called, concurrency, tasks.values(), child_setup)

        self._lanes = Lanes(AsyncLane(event_loop, self.finished, self.overdue), self.finished, new_process_lane, tasks)

    # what the loop asks

    @property
    def free_slots(self) -> int:
        """How many slots neither have an attempt nor wait for one of the buffer."""
        with self._lock:  # not between the end of an attempt and the start of the next in its slot
            return max(0, self._concurrency - len(self._running) - len(self._buffer))

    @property
    def used_slots(self) -> int:
        with self._lock:
            return len(self._running)

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    @property
    def concurrency(self) -> int:
        return self._concurrency

    @property
    def charged(self) -> list[Attempt]:
        """The attempts in the buffer that a kill would use up, as their claims say that they have started."""
        if self._charged:
            self._charged = [one for one in self._charged if not (one.started_at or one.settled)]
        return self._charged

    @property
    def busy(self) -> bool:
        """Whether anything runs, or waits in the buffer."""
        return bool(self._running or self._buffer)

    @property
    def is_exhausted(self) -> bool:
        """Whether an abandoned handler holds every slot."""
        return len(self._abandoned) >= self._concurrency

    @property
    def abandoned(self) -> set[tuple[int, int]]:
        """The fences of the attempts that were settled although their handlers continue."""
        if not self._abandoned:
            return set()
        with self._lock:
            return self._abandoned.fences(event_loop_closed=self._lanes.event_loop_closed)

    @property
    def has_ended(self) -> bool:
        return bool(self._ended or self._abandoned.any_ended)

    def in_flight(self, queue: str) -> int:
        return self._in_queue[queue] if self._in_queue is not None else 0

    @property
    def batches(self) -> Mapping[str, int]:
        """How many jobs of a batch task share one slot."""
        return self._gathering.sizes

    def batch_room(self) -> dict[str, int]:
        """Return how many more jobs fit into the open batches."""
        if not self._gathering:
            return {}
        with self._lock:
            return self._gathering.room()

    def running(self) -> list[Attempt]:
        with self._lock:
            return self._attempts()

    def held(self) -> list[Attempt]:
        """Return all that runs, is buffered, or has ended since the last `pop_ended`."""
        with self._lock:
            return [*self._attempts(), *self._buffer, *self._ended]

    def unmarked(self, older_than_seconds: float) -> list[Attempt]:
        """Return running attempts that came out of the buffer, and whose rows do not say yet that they started."""
        limit = self._clock.monotonic() - older_than_seconds
        return [
            attempt
            for attempt in self.running()
            # the handler of a completed one may lock its row
            if not (attempt.marked or attempt.settled or attempt.completed) and 0 < attempt.started_at < limit
        ]

    def is_running(self, call: Call) -> bool:
        return call in self._running

    def read_stack(self, attempt: Attempt, answer: Callable[[list[StackFrame] | None], None]) -> None:
        """Call `answer`, perhaps later and in another thread, with the frames of the handler; None if none runs."""
        if not attempt.started_at:
            answer(None)
        elif attempt.task.lane is Lane.PROCESS:
            self._lanes.processes.read_stack(attempt, answer)
        else:
            answer(stack_of(attempt))

    def call_on_event_loop(self, function: Callable[[], None]) -> bool:
        """Let the event loop call a function soon. Return whether there is one."""
        return self._lanes.call_on_event_loop(function)

    def _attempts(self) -> list[Attempt]:
        return [attempt for call in self._running for attempt in call.attempts]

    # accepting attempts

    def identify(self, identity: Identity) -> None:
        """From now on, attempts are claimed under this name."""
        self._abandoned.identity = identity

    def reserve(self, claimed: int) -> None:
        """Make room in the liveness file for these attempts, and for all that may not have started yet."""
        if (file := self._abandoned.identity.liveness_file) is not None:
            with self._lock:
                held = len(self._buffer) + len(self._attempts() if self.batches else self._running)
            file.reserve(held + claimed)

    def accept(self, started: Sequence[Attempt], buffered: Sequence[Attempt], joining: Sequence[Attempt] = ()) -> None:
        """Give these a slot, put those into the buffer, and let the last ones join open batches.

        `start_accepted` starts them.
        """
        calls: Sequence[Call] = self._gather(started, joining) if self.batches else started
        with self._lock:
            self._running.update(calls)
            if self._in_queue is not None:
                self._in_queue.update(one.ready.queue for one in (*calls, *buffered) if isinstance(one, Attempt))
            self._buffer.extend(buffered)
            self._charged += [one for one in buffered if one.marked]
            self._accepted.extend(calls)
        if not self.any_accepted.is_set():
            self.any_accepted.set()

    def start_accepted(self, portion: int = MOST_BUFFERED) -> None:
        """Start what has a slot. From now on, that many of the buffer may start. Called in the loop's thread."""
        with self._lock:
            self._portion = portion
        while self._accepted and not self.stopping:
            self._start(self._accepted.popleft())
        self._fill_slots()

    @property
    def waits_to_start(self) -> bool:
        """Whether `start_accepted` has something to start, now or as slots come free."""
        return bool(self._accepted or self._buffer)

    def _gather(self, started: Sequence[Attempt], joining: Sequence[Attempt]) -> list[Call]:
        """Put the attempts of batch tasks into batches. Return what starts now."""
        with self._lock:
            ready, opened = self._gathering.put(started, joining, self._clock.timer())
            self._running.update(opened)
            if self._in_queue is not None:
                self._in_queue.update(batch.ready.queue for batch in opened)
        return ready

    def _fill_slots(self) -> None:
        while True:
            with self._lock:
                attempt = self._pop_buffered() if len(self._running) < self._concurrency else None
            if attempt is None:
                return
            self._start(attempt)

    def _pop_buffered(self) -> Attempt | None:
        if not self._buffer or self._portion <= 0 or self.stopping:
            return None
        self._portion -= 1
        attempt = self._buffer.popleft()
        self._running.add(attempt)
        return attempt

    def _start(self, call: Call) -> None:
        self._watch_thread(call)
        self._lanes.start(call)

    # the end of an attempt

    def finished(self, call: Call) -> Attempt | None:
        """Called by a lane when a handler has ended. Return the next attempt for the same lane, if there is one."""
        with self._lock:
            if call.settled:
                self._abandoned.end(call)
            elif isinstance(call, Attempt):  # most are: without a loop
                call.settled = True
                self._ended.append(call)
            else:
                self._put_ended(call)
            self._running.discard(call)
            if self._in_queue is not None:
                self._in_queue[call.ready.queue] -= 1
            next_attempt = self._pop_buffered()
            quiet = next_attempt is not None and len(self._buffer) > self.quiet_above
            self.generation = next(self._changes)
        if not quiet:
            self._wake()
        if next_attempt is None:
            return None
        if next_attempt.timeout_seconds is not None:
            self._watch_thread(next_attempt)
        if next_attempt.task.lane is call.task.lane:
            return next_attempt
        self._lanes.start(next_attempt)
        return None

    def pop_ended(self) -> list[Attempt]:
        ended = self._ended[:]
        del self._ended[: len(ended)]  # without a lock: others only append
        return ended

    def pop_late(self) -> list[tuple[int, int]]:
        """Return the fences of abandoned attempts whose handlers have ended since the last call."""
        return self._abandoned.pop_ended()

    def _put_ended(self, call: Call) -> None:
        call.settled = True
        for attempt in call.attempts:
            attempt.settled = True
            self._ended.append(attempt)
        self.generation = next(self._changes)

    # releasing what was not started

    def pop_buffered(self) -> list[Attempt]:
        """Empty the buffer."""
        with self._lock:
            attempts = list(self._buffer)
            self._buffer.clear()
            self._leave_queues(attempts)
        return attempts

    def pop_unstarted(self) -> list[Attempt]:
        """Empty the buffer and the open batches, and free the slots that wait for `start_accepted`."""
        buffered = self.pop_buffered()
        with self._lock:
            waiting = [*self._accepted, *self._gathering.pop_all()]
            self._accepted.clear()
            self._free_slots_of(waiting)
        return [*buffered, *(attempt for call in waiting for attempt in call.attempts)]

    def release_unstarted(self, attempt: Attempt) -> None:
        """Release an attempt, unless its handler has started: another claim asks its limits again."""
        if self._remove(attempt):
            attempt.release_unstarted()
            self._put_ended(attempt)
            self._fill_slots()
            self._wake()

    def _free_slots_of(self, calls: Sequence[Call]) -> None:
        self._running.difference_update(calls)
        self._leave_queues(calls)

    def _leave_queues(self, calls: Iterable[Call]) -> None:
        if self._in_queue is not None:
            self._in_queue.subtract(call.ready.queue for call in calls)

    # timeouts: the loop's thread watches those of threads, the event loop its own

    @property
    def deadline_at(self) -> float:
        """When `give_up_overdue` has something to do."""
        at = self._deadlines.next_at()
        if self._gathering:
            with self._lock:
                at = min([at, *self._gathering.due_times()])
        return at

    def give_up_overdue(self) -> None:
        """Also start the batches that have waited for long enough."""
        if self._gathering and not self.stopping:
            self._start_due_batches()
        while (call := self._deadlines.pop_overdue(self._clock.timer())) is not None:
            if call.settled or call.timeout_seconds is None:
                continue
            outcome = TimedOut(call.timeout_seconds)
            call.stop(outcome)
            if isinstance(call, Attempt) and call.task.lane is Lane.PROCESS:
                with self._lock:
                    self._abandoned.add_dying(call)
                self._lanes.processes.drop(call)
            else:
                self.abandon(call, outcome)

    def _start_due_batches(self) -> None:
        with self._lock:
            due = self._gathering.pop_due(self._clock.timer())
        for batch in due:
            self._start(batch)

    def _watch_thread(self, call: Call) -> None:
        """The event loop watches its own attempts, and a child process may still have to be started."""
        if call.timeout_seconds is not None and call.task.lane is Lane.THREAD:
            self._watch(call)

    def _watch(self, call: Call) -> None:
        seconds = call.timeout_seconds
        if seconds is not None and self._deadlines.add(call, self._clock.timer() + seconds):
            self.generation = next(self._changes)
            self._wake()

    def overdue(self, call: Call) -> None:
        """Called by the async lane: the handler was cancelled for its timeout, and continues."""
        if call.timeout_seconds is not None:
            self.abandon(call, TimedOut(call.timeout_seconds))

    def _process_gone(self, call: Call) -> None:
        """Called by the process lane: the process of a call that timed out has ended."""
        with self._lock:
            self._abandoned.end_dying(call)
            self.generation = next(self._changes)
        self._wake()

    # stopping handlers

    def abandon(self, call: Call, outcome: TimedOut | Released) -> None:
        """Settle a call whose handler continues; its slot stays in use until the handler ends."""
        with self._lock:
            if call.settled or call not in self._running:
                return
            call.settled = True
            self._abandoned.add(call)
        if isinstance(call, Attempt) and call.task.lane is Lane.PROCESS:
            self._lanes.processes.kill(call)  # before another worker can claim its job
        call.give_up(outcome)
        if isinstance(outcome, TimedOut):
            frames = stack_of(call)
            for attempt in call.attempts:
                attempt.show_timeout(outcome, frames)
            log_abandoned(call.attempts)
        self._put_ended(call)
        self._wake()

    def abandon_all(self, outcome: Released) -> None:
        for call in self._all_running():
            self.abandon(call, outcome)

    def stop_all(self) -> None:
        """Ask every running handler to end: its job will be released."""
        for call in self._all_running():
            self.cancel(call, Released())

    def _all_running(self) -> list[Call]:
        with self._lock:
            return list(self._running)

    def cancel(self, call: Call, because: Stop) -> None:
        """Ask one handler to end, unless it was asked before; what was not started never starts.

        A batch is asked to end when all of its jobs are cancelled.
        """
        if isinstance(call, Attempt) and self._remove(call):
            call.stop(because)
            call.give_up(because)
            self._put_ended(call)
            self._fill_slots()
            self._wake()
            return
        if call.stopped_because is not None:
            return
        call.stop(because)
        batch = call.batch if isinstance(call, Attempt) else None
        if not isinstance(batch, BatchCall):
            self._lanes.cancel(call)
        elif all(attempt.stopped_because is not None for attempt in batch.attempts):
            self.cancel(batch, because)

    def _remove(self, attempt: Attempt) -> bool:
        """Return whether it was in the buffer, or in a batch that has not started."""
        with self._lock:
            if attempt in self._buffer:
                self._buffer.remove(attempt)
                self._leave_queues([attempt])
            elif (batch := self._gathering.remove(attempt)) is None:
                return False
            elif not batch.attempts:
                self._free_slots_of([batch])
            attempt.settled = True
        return True

    # starting and stopping

    def event_loop(self) -> AbstractEventLoop:
        """Return the event loop that runs async handlers."""
        return self._lanes.event_loop()

    def warm_up(self) -> None:
        self._lanes.warm_up()

    def close(self) -> None:
        self._lanes.close()


class Lanes:
    """`finished` returns the next attempt for the same lane."""

    def __init__(
        self,
        async_lane: AsyncLane,
        finished: CallFinished,
        new_process_lane: Callable[[], ProcessLane],
        tasks: Mapping[str, Declaration],
    ) -> None:
        self._async = async_lane
        self._threads = ThreadLane(finished)
        self._new_process_lane = new_process_lane
        self._process_lane: ProcessLane | None = None
        self._tasks = tasks
        self._lock = threading.Lock()

    def start(self, call: Call) -> None:
        match call.task.lane:
            case Lane.LOOP:
                self._async.start(call)
            case Lane.THREAD:
                self._threads.start(call)
            case Lane.PROCESS if isinstance(call, Attempt):  # batches are not isolated
                self.processes.start(call)

    def cancel(self, call: Call) -> None:
        """Cancel an async handler, or terminate a process. A thread can only check `ctx.cancelled`."""
        match call.task.lane:
            case Lane.LOOP:
                self._async.cancel(call)
            case Lane.PROCESS if isinstance(call, Attempt):
                self.processes.cancel(call)

    def call_on_event_loop(self, function: Callable[[], None]) -> bool:
        return self._async.call(function)

    def event_loop(self) -> AbstractEventLoop:
        return self._async.event_loop()

    @property
    def event_loop_closed(self) -> bool:
        return self._async.is_closed

    @property
    def processes(self) -> ProcessLane:
        with self._lock:
            if self._process_lane is None:
                self._process_lane = self._new_process_lane()
            return self._process_lane

    def warm_up(self) -> None:
        """Start the event loop, and a first child process, if a task needs them: each takes milliseconds."""
        lanes = {task.lane for task in self._tasks.values()}
        if Lane.LOOP in lanes:
            self._async.event_loop()
        if Lane.PROCESS in lanes:
            self.processes.warm_up()

    def close(self) -> None:
        if self._process_lane is not None:
            self._process_lane.close()
        self._threads.close()
        self._async.close()
