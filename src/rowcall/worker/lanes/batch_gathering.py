"""Batches that wait for more jobs: one of each task at most, until it is full or its first job has waited enough."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from rowcall.declare.declaration import Declaration
from rowcall.worker.attempt import Run
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

    def put(self, started: Iterable[Run], riding: Sequence[Run], now: float) -> tuple[list[Run], list[Batch]]:
        """Let those of batch tasks join a batch; gives what starts now, full batches included, and what was opened."""
        ready: list[Run] = []
        opened: list[Batch] = []
        riders: defaultdict[str, deque[Run]] = defaultdict(deque)
        for run in riding:
            riders[run.task.name].append(run)
        for name in [*self._open]:
            self._fill(name, riders[name], now, ready, opened)
        for run in started:
            if run.task.options.batch is None:
                ready.append(run)
            else:
                riders[run.task.name].appendleft(run)
                self._fill(run.task.name, riders[run.task.name], now, ready, opened)
        for name, left in riders.items():
            while left:  # their batch is gone meanwhile
                self._fill(name, left, now, ready, opened)
        return ready, opened

    def _fill(self, name: str, riders: deque[Run], now: float, ready: list[Run], opened: list[Batch]) -> None:
        """Let them join one batch: the one that waits, or else a new one."""
        batch = self._open.get(name)
        while riders and (batch is None or batch.room > 0):
            run = riders.popleft()
            if batch is not None:
                batch.add(run)
            else:
                batch = self._open[name] = Batch(run, now)
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

    def take_out(self, run: Run) -> Batch | None:
        """The batch that a run has waited for, and waits for no longer; None if it did not."""
        batch = self._open.get(run.task.name)
        if batch is None or run.batch is not batch:
            return None
        batch.members.remove(run)
        if not batch.members:
            del self._open[run.task.name]
        return batch
