"""Batches that wait for more jobs: one of each task at most, until it is full or its first job has waited enough."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from rowcall.declare.declaration import Declaration
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes.batch import Batch


class Gathering:
    """The dispatcher calls it within its lock, and gives a slot to each batch that is opened."""

    def __init__(self, tasks: Mapping[str, Declaration]) -> None:
        self._tasks = tasks
        self._sizes: tuple[int, dict[str, int]] = (0, {})
        self._open: dict[str, Batch] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many jobs of a task one slot takes together, for those tasks that take several."""
        if self._sizes[0] != len(self._tasks):
            sizes = {name: task.options.batch for name, task in self._tasks.items() if task.options.batch is not None}
            self._sizes = (len(self._tasks), sizes)
        return self._sizes[1]

    def rides(self) -> dict[str, int]:
        """How many more jobs they would take."""
        return {name: batch.room for name, batch in self._open.items()}

    def due_times(self) -> list[float]:
        return [batch.due_at for batch in self._open.values()]

    def put(
        self, started: Iterable[Attempt], riding: Sequence[Attempt], now: float
    ) -> tuple[list[Attempt], list[Batch]]:
        """Let those of batch tasks join a batch; gives what starts now, full batches included, and what was opened."""
        ready: list[Attempt] = []
        opened: list[Batch] = []
        riders: defaultdict[str, deque[Attempt]] = defaultdict(deque)
        for attempt in riding:
            riders[attempt.task.name].append(attempt)
        for name in [*self._open]:
            self._fill(name, riders[name], now, ready, opened)
        for attempt in started:
            if attempt.task.options.batch is None:
                ready.append(attempt)
            else:
                riders[attempt.task.name].appendleft(attempt)
                self._fill(attempt.task.name, riders[attempt.task.name], now, ready, opened)
        for name, left in riders.items():
            while left:  # their batch is gone meanwhile
                self._fill(name, left, now, ready, opened)
        return ready, opened

    def _fill(self, name: str, riders: deque[Attempt], now: float, ready: list[Attempt], opened: list[Batch]) -> None:
        """Let them join one batch: the one that waits, or else a new one."""
        batch = self._open.get(name)
        while riders and (batch is None or batch.room > 0):
            attempt = riders.popleft()
            if batch is not None:
                batch.add(attempt)
            else:
                batch = self._open[name] = Batch(attempt, now)
                opened.append(batch)
        if batch is not None and batch.room == 0:
            del self._open[name]
            ready.append(batch)

    def take_due(self, now: float) -> list[Batch]:
        due = [batch for batch in self._open.values() if batch.due_at <= now]
        for batch in due:
            del self._open[batch.task.name]
        return due

    def take_all(self) -> list[Batch]:
        batches = list(self._open.values())
        self._open.clear()
        return batches

    def take_out(self, attempt: Attempt) -> Batch | None:
        """The batch that a run has waited for, and waits for no longer; None if it did not."""
        batch = self._open.get(attempt.task.name)
        if batch is None or attempt.batch is not batch:
            return None
        batch.members.remove(attempt)
        if not batch.members:
            del self._open[attempt.task.name]
        return batch
