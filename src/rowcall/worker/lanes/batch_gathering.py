"""Open batches: at most one per task, until it is full or its first job has waited long enough."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from rowcall.declare.declaration import Declaration
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes.batch import Batch


class Gathering:
    """Used within the dispatcher's lock; each batch that is opened takes a slot."""

    def __init__(self, tasks: Mapping[str, Declaration]) -> None:
        self._tasks = tasks
        self._sizes: tuple[int, dict[str, int]] = (0, {})
        self._open: dict[str, Batch] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many jobs of a batch task one slot takes together."""
        if self._sizes[0] != len(self._tasks):
            sizes = {name: task.options.batch for name, task in self._tasks.items() if task.options.batch is not None}
            self._sizes = (len(self._tasks), sizes)
        return self._sizes[1]

    def room(self) -> dict[str, int]:
        """Return how many more jobs they would take."""
        return {name: batch.room for name, batch in self._open.items()}

    def due_times(self) -> list[float]:
        return [batch.due_at for batch in self._open.values()]

    def put(
        self, started: Iterable[Attempt], joining: Sequence[Attempt], now: float
    ) -> tuple[list[Attempt], list[Batch]]:
        """Put attempts of batch tasks into batches. Return what starts now, and the new batches."""
        ready: list[Attempt] = []
        opened: list[Batch] = []
        by_task: defaultdict[str, deque[Attempt]] = defaultdict(deque)
        for attempt in joining:
            by_task[attempt.task.name].append(attempt)
        for name in [*self._open]:
            self._fill(name, by_task[name], now, ready, opened)
        for attempt in started:
            if attempt.task.options.batch is None:
                ready.append(attempt)
            else:
                by_task[attempt.task.name].appendleft(attempt)
                self._fill(attempt.task.name, by_task[attempt.task.name], now, ready, opened)
        for name, left in by_task.items():
            while left:  # their batch is gone
                self._fill(name, left, now, ready, opened)
        return ready, opened

    def _fill(self, name: str, by_task: deque[Attempt], now: float, ready: list[Attempt], opened: list[Batch]) -> None:
        """Put them into the open batch, or into a new one."""
        batch = self._open.get(name)
        while by_task and (batch is None or batch.room > 0):
            attempt = by_task.popleft()
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
        """Remove an attempt from its open batch, and return that batch. Return None if it is in none."""
        batch = self._open.get(attempt.task.name)
        if batch is None or attempt.batch is not batch:
            return None
        batch.members.remove(attempt)
        if not batch.members:
            del self._open[attempt.task.name]
        return batch
