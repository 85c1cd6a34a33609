"""Several attempts that one call of a handler serves; each is settled separately."""

from __future__ import annotations

from asyncio import CancelledError
from asyncio import Task as AsyncTask
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from rowcall.context import Context
from rowcall.declare.declaration import Declaration
from rowcall.declare.tracing import Processing
from rowcall.domain.job import Job
from rowcall.domain.job_log import AttemptLines
from rowcall.domain.outcome import Lost, Outcome, Raised, Reported, Succeeded, Unfit
from rowcall.durable.handler_steps import Steps
from rowcall.worker.attempt import Attempt, Stop

LENGTH_CODE = "INVALID_OUTPUT:BATCH_LENGTH"


class NothingFits(Exception):
    """No item of the batch is left to call the handler with."""


class BatchCall:
    """It takes one slot for all of its attempts, from the claim of the first one. Lanes run it like an attempt."""

    def __init__(self, first: Attempt, now: float) -> None:
        self.ready = first.ready
        """The first job, whose queue counts."""
        self.task = first.task
        self.timeout_seconds = first.timeout_seconds
        self.attempts = [first]
        self.due_at = now + first.task.options.batch_wait_seconds
        self.started_at = 0.0
        self.settled = False
        self.cancelled = False
        self.saw_cancelled = False
        self.stopped_because: Stop | None = None
        self.large_result: str | None = None
        self.async_task: AsyncTask[None] | None = None
        self.trace: Processing | None = None
        self._completion = first.common.completion
        self._context: Context | None = None
        self._called: list[Attempt] = []
        first.batch = self

    @property
    def room(self) -> int:
        return (self.task.options.batch or 1) - len(self.attempts)

    def add(self, attempt: Attempt) -> None:
        attempt.batch = self
        self.attempts.append(attempt)
        if attempt.timeout_seconds is not None:
            self.timeout_seconds = min(attempt.timeout_seconds, self.timeout_seconds or attempt.timeout_seconds)

    @property
    def context(self) -> Context:
        if self._context is None:
            self._context = Context(self)
        return self._context

    @property
    def resources(self) -> object:
        return self._completion.resources

    @property
    def worker_values(self) -> Mapping[Callable[..., object], object]:
        return self._completion.worker_values

    @property
    def log_fields(self) -> dict[str, object]:
        fields = self.attempts[0].log_fields
        return {name: value for name, value in fields.items() if name not in ("job_id", "job_attempt")}

    @property
    def log_lines(self) -> AttemptLines | None:
        lines = self.attempts[0].log_lines
        for attempt in self.attempts[1:]:
            attempt.lines = lines
        return lines

    def claimed_job(self) -> Job:
        if len(self._called) > 1:
            raise RuntimeError(f"this handler has a batch of {len(self._called)} jobs: ctx.jobs lists them")
        return self._called[0].claimed_job()

    def claimed_jobs(self) -> list[Job]:
        return [attempt.claimed_job() for attempt in self._called]

    # its start

    def start(self) -> tuple[list[object], dict[str, object]] | None:
        self.begin()
        if any(attempt.refers() for attempt in self.attempts):
            return None
        return self.arguments()

    def begin(self) -> None:
        for attempt in self.attempts:
            attempt.begin()
        self.started_at = self.attempts[0].started_at
        self.trace = self.attempts[0].trace

    def fetch(self) -> None:
        for attempt in self.attempts:
            if attempt.refers():
                self._do_for(attempt, attempt.fetch)

    def arguments(self) -> tuple[list[object], dict[str, object]]:
        items: list[object] = []
        self._called = []
        for attempt in self.attempts:
            if attempt.stopped_because is not None and self.stopped_because is None:  # cancelled while it waited
                attempt.fail(CancelledError())
            if attempt.transition is None and self._do_for(attempt, partial(_put_item, attempt, items)):
                self._called.append(attempt)
        if not items:
            raise NothingFits
        return ([self.context, items] if self.task.takes_context else [items]), {}

    def _do_for(self, attempt: Attempt, act: Callable[[], None]) -> bool:
        """If this fails for one member, only that one fails."""
        try:
            act()
        except Exception as error:
            attempt.fail(error)
            return False
        return True

    # its end

    def succeed(self, result: object) -> None:
        if self.settled:
            return
        for attempt, ended in zip(self._called, self._results(result), strict=True):
            attempt.saw_cancelled = attempt.saw_cancelled or self.saw_cancelled
            if isinstance(ended, BaseException | Unfit):
                attempt.fail(ended)
            else:
                attempt.succeed(ended)
        if any(attempt.large_result is not None for attempt in self._called):
            self.large_result = ""

    def _results(self, result: object) -> Sequence[object]:
        """Return one result for each item."""
        count = len(self._called)
        if result is None:
            return [None] * count
        if isinstance(result, list | tuple) and len(result) == count:
            return result
        given = f"{len(result)} results" if isinstance(result, list | tuple) else f"a {type(result).__name__}"
        detail = f"the handler of a batch of {count} returned {given}; it must return None, or a list of {count}"
        return [Unfit(LENGTH_CODE, detail)] * count

    def fail(self, error: BaseException | Raised | Reported | Unfit) -> None:
        if self.settled:
            return
        for attempt in self.attempts:
            if attempt.transition is None:
                attempt.large_result = None
                attempt.fail(error)

    def put_large_result(self) -> Outcome:
        for attempt in self._called:
            if attempt.large_result is not None:
                attempt.end(attempt.put_large_result())
        return Succeeded()

    def end(self, outcome: Outcome) -> None:
        self.large_result = None

    def give_up(self, outcome: Stop) -> None:
        for attempt in self.attempts:
            if attempt.transition is None:
                attempt.give_up(outcome)

    def stop(self, because: Stop) -> None:
        if not isinstance(self.stopped_because, Lost):
            self.stopped_because = because
        self.cancelled = True
        for attempt in self.attempts:
            if attempt.stopped_because is None:
                attempt.stop(because)

    def end_trace(self) -> None:
        for attempt in reversed(self.attempts):
            attempt.end_trace()

    # what its context does

    def report(self, share: float, message: str | None) -> None:
        for attempt in self._called:
            attempt.report(share, message)

    def stream(self, value: object, name: str) -> None:
        raise RuntimeError("ctx.stream is not available in a batch: a stream belongs to one job")

    def continue_with(self, task: object, arguments: tuple[object, ...], options: dict[str, object]) -> None:
        raise RuntimeError("ctx.continue_with is not available in a batch: it continues the chain of one job")

    @property
    def steps(self) -> Steps:
        raise RuntimeError("durable steps are not available in a batch: they belong to one job")

    def blockers(self) -> list[object]:
        raise RuntimeError("ctx.blockers is not available in a batch: each job has its own")

    def previous(self) -> object:
        raise RuntimeError("ctx.previous is not available in a batch: each job has its own")

    def batch_of_job(self) -> None:
        raise RuntimeError("ctx.batch is not available in a batch handler: each job may be in another batch")

    def use_units(self, limit: str, units: int) -> None:
        raise RuntimeError("ctx.used is not available in a batch: each job has its own units")

    def complete(self, result: object, connection: object) -> None:
        raise RuntimeError("ctx.complete is not available in a batch: return a list of results")

    async def acomplete(self, result: object, connection: object) -> None:
        self.complete(result, connection)


def _put_item(attempt: Attempt, items: list[object]) -> None:
    items += attempt.task.arguments.from_json(attempt.ready.payload)[0]


Call = Attempt | BatchCall
"""What a lane runs: one call of a handler."""

CallFinished = Callable[[Call], Attempt | None]
"""What a lane calls when a handler has ended. It returns the next attempt for the lane, if there is one."""


class Gathering:
    """Used within the dispatcher's lock; each batch that is opened takes a slot."""

    def __init__(self, tasks: Mapping[str, Declaration]) -> None:
        self._tasks = tasks
        self._sizes: tuple[int, dict[str, int]] = (0, {})
        self._open: dict[str, BatchCall] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many jobs of a batch task share one slot."""
        if self._sizes[0] != len(self._tasks):
            sizes = {name: task.options.batch for name, task in self._tasks.items() if task.options.batch is not None}
            self._sizes = (len(self._tasks), sizes)
        return self._sizes[1]

    def room(self) -> dict[str, int]:
        """Return how many more jobs fit into the open batches."""
        return {name: batch.room for name, batch in self._open.items()}

    def due_times(self) -> list[float]:
        return [batch.due_at for batch in self._open.values()]

    def put(
        self, started: Iterable[Attempt], joining: Sequence[Attempt], now: float
    ) -> tuple[list[Call], list[BatchCall]]:
        """Put attempts of batch tasks into batches. Return what starts now, and the new batches."""
        ready: list[Call] = []
        opened: list[BatchCall] = []
        by_task: defaultdict[str, deque[Attempt]] = defaultdict(deque)
        for attempt in joining:
            if attempt.task.options.batch is None:  # this one is delivered to a target
                ready.append(attempt)
            else:
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

    def _fill(self, name: str, by_task: deque[Attempt], now: float, ready: list[Call], opened: list[BatchCall]) -> None:
        """Put them into the open batch, or into a new one."""
        batch = self._open.get(name)
        while by_task and (batch is None or batch.room > 0):
            attempt = by_task.popleft()
            if batch is not None:
                batch.add(attempt)
            else:
                batch = self._open[name] = BatchCall(attempt, now)
                opened.append(batch)
        if batch is not None and batch.room == 0:
            del self._open[name]
            ready.append(batch)

    def pop_due(self, now: float) -> list[BatchCall]:
        due = [batch for batch in self._open.values() if batch.due_at <= now]
        for batch in due:
            del self._open[batch.task.name]
        return due

    def pop_all(self) -> list[BatchCall]:
        batches = list(self._open.values())
        self._open.clear()
        return batches

    def remove(self, attempt: Attempt) -> BatchCall | None:
        """Remove an attempt from its open batch, and return that batch. Return None if it is in none."""
        batch = self._open.get(attempt.task.name)
        if batch is None or attempt.batch is not batch:
            return None
        batch.attempts.remove(attempt)
        if not batch.attempts:
            del self._open[attempt.task.name]
        return batch
