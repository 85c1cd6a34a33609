"""The slots and the buffer of one worker process, shared by its lanes."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from rowcall.lifecycle import Released, TimedOut
from rowcall.worker.lanes import AsyncLane, ThreadLane
from rowcall.worker.ledger import Ledger
from rowcall.worker.pace import MOST_BUFFERED
from rowcall.worker.run import Run, Stop


class Dispatcher:
    """At most `concurrency` runs at once; those that end make room for the buffered ones by themselves."""

    def __init__(
        self,
        concurrency: int,
        ring: Callable[[], None],
        async_lane: AsyncLane | None,
        *,
        limited_queues: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._limited_queues = limited_queues
        self._concurrency = concurrency
        self._ring = ring
        self._lock = threading.Lock()
        self._buffer: deque[Run] = deque()
        self._running: set[Run] = set()
        self._ended: deque[Run] = deque()
        self._in_queue: Counter[str] = Counter()
        self._deadlines: list[tuple[float, int, Run]] = []
        self._tie = itertools.count()
        self._abandoned = 0
        self.ledger: Ledger | None = None
        self.anything = threading.Event()
        """Set when something was accepted; whoever looks after what runs clears it when nothing does."""
        self.quiet_above = MOST_BUFFERED  # with more than that in the buffer, an end is not worth a wake-up
        self._threads = ThreadLane(self.finished)
        self._loop = async_lane or AsyncLane(None)
        self._loop.connect(self.finished, self.overdue)

    # what the loop asks

    @property
    def free_slots(self) -> int:
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
        return self._abandoned >= self._concurrency

    def in_flight(self, queue: str) -> int:
        return self._in_queue[queue]

    def accept(self, started: Sequence[Run], buffered: Sequence[Run]) -> None:
        if not self.anything.is_set():
            self.anything.set()
        with self._lock:
            self._running.update(started)
            if self._limited_queues:
                self._in_queue.update(run.ready.queue for run in (*started, *buffered))
            self._buffer.extend(buffered)
        for run in started:
            self._start(run)
        while (run_next := self._next_into_free_slot()) is not None:
            self._start(run_next)

    @property
    def has_ended(self) -> bool:
        return bool(self._ended)

    def take_ended(self) -> list[Run]:
        ended = []
        while self._ended:
            ended.append(self._ended.popleft())
        return ended

    def take_buffered(self) -> list[Run]:
        """Empty the buffer: what was never started is given back."""
        with self._lock:
            runs = list(self._buffer)
            self._buffer.clear()
            if self._limited_queues:
                self._in_queue.subtract(run.ready.queue for run in runs)
        return runs

    def running(self) -> list[Run]:
        with self._lock:
            return list(self._running)

    def held(self) -> list[Run]:
        """All that runs, waits for its turn or has ended since the last time that was asked."""
        with self._lock:
            return [*self._running, *self._buffer, *self._ended]

    def unmarked(self, older_than_seconds: float) -> list[Run]:
        """Runs out of the buffer that go on for long enough for their rows to say so."""
        limit = self._monotonic() - older_than_seconds
        return [
            run
            for run in self.running()
            # a completed one's row may be locked by its own handler
            if not (run.marked or run.settled or run.completed) and 0 < run.started_at < limit
        ]

    # time-outs: the loop's thread watches those of threads, the event loop its own

    def seconds_to_deadline(self) -> float | None:
        with self._lock:
            return max(0.0, self._deadlines[0][0] - time.monotonic()) if self._deadlines else None

    def give_up_overdue(self) -> None:
        while True:
            with self._lock:
                if not self._deadlines or self._deadlines[0][0] > time.monotonic():
                    return
                run = heapq.heappop(self._deadlines)[2]
            if not run.settled and run.timeout_seconds is not None:
                outcome = TimedOut(run.timeout_seconds)
                run.stop(outcome)
                self.abandon(run, outcome)

    def overdue(self, run: Run) -> None:
        """An async handler that was cancelled for its time-out, and goes on all the same."""
        if run.timeout_seconds is not None:
            self.abandon(run, TimedOut(run.timeout_seconds))

    def abandon(self, run: Run, outcome: TimedOut | Released) -> None:
        """Settle a run whose handler goes on; its slot stays taken until the handler ends."""
        with self._lock:
            if run.settled or run not in self._running:
                return
            run.settled = True
            self._abandoned += 1
        run.give_up(outcome)
        self._ended.append(run)
        self._ring()

    def stop_all(self) -> None:
        """Ask every running handler to end: its job will be released."""
        for run in self.running():
            self.cancel(run, Released())

    def cancel(self, run: Run, because: Stop) -> None:
        """Ask one handler to end, unless that was done before; one that waits for its turn never begins."""
        if self._take_out_of_buffer(run):
            run.give_up(because)
            self._ended.append(run)
            self._ring()
        elif run.stopped_because is None:
            run.stop(because)
            self._loop.cancel(run)

    def _take_out_of_buffer(self, run: Run) -> bool:
        with self._lock:
            if run not in self._buffer:
                return False
            self._buffer.remove(run)
            if self._limited_queues:
                self._in_queue[run.ready.queue] -= 1
            run.settled = True
        return True

    def close(self) -> None:
        self._threads.close()
        self._loop.close()

    # what the lanes tell

    def finished(self, run: Run) -> Run | None:
        """A handler has ended. Gives the next run for the same lane, if there is one."""
        with self._lock:
            if run.settled:
                self._abandoned -= 1
            else:
                run.settled = True
                self._ended.append(run)
            self._running.discard(run)
            if self._limited_queues:
                self._in_queue[run.ready.queue] -= 1
            run_next = self._pop_buffered()
            quiet = len(self._buffer) > self.quiet_above
        if not quiet:
            self._ring()
        if run_next is None:
            return None
        self._watch(run_next)
        if run_next.task.is_async is run.task.is_async:
            return run_next
        self._hand_over(run_next)
        return None

    def _next_into_free_slot(self) -> Run | None:
        with self._lock:
            run = self._pop_buffered() if len(self._running) < self._concurrency else None
        if run is not None:
            self._watch(run)
        return run

    def _pop_buffered(self) -> Run | None:
        if not self._buffer:
            return None
        run = self._buffer.popleft()
        self._running.add(run)
        return run

    def _start(self, run: Run) -> None:
        if run.marked:
            self._watch(run)
        self._hand_over(run)

    def _hand_over(self, run: Run) -> None:
        (self._loop if run.task.is_async else self._threads).start(run)

    def _watch(self, run: Run) -> None:
        if run.timeout_seconds is not None and not run.task.is_async:
            with self._lock:
                if len(self._deadlines) > 2 * self._concurrency + MOST_BUFFERED:
                    self._deadlines = [entry for entry in self._deadlines if not entry[2].settled]
                    heapq.heapify(self._deadlines)
                entry = (time.monotonic() + run.timeout_seconds, next(self._tie), run)
                heapq.heappush(self._deadlines, entry)
                is_first = self._deadlines[0] is entry
            if is_first:
                self._ring()
