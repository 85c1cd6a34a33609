"""An attempt in a child process: what its handler says goes to the worker."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import NamedTuple

from rowcall.base.clock import SystemClock
from rowcall.context import Context
from rowcall.declare.declaration import Declaration
from rowcall.declare.limits import with_derived
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.domain.job_log import place_of
from rowcall.domain.payload import checked_result, untyped_to_json
from rowcall.domain.stream import value_text
from rowcall.durable.handler_steps import Steps
from rowcall.operations.batches import Batch, batch_of_job
from rowcall.operations.by_hand import job_of
from rowcall.operations.enqueue import Bound, bind
from rowcall.operations.flows import step_job
from rowcall.queue import Queue
from rowcall.store.ends.next_steps import Then
from rowcall.store.queries.claims import Mark
from rowcall.worker.completion import CompletingAttempt, Completion
from rowcall.worker.isolation.child_exceptions import rebuilt
from rowcall.worker.isolation.child_lifespan import ChildLifespan
from rowcall.worker.isolation.child_steps import ChildSteps
from rowcall.worker.isolation.messages import (
    Answered,
    Asked,
    AttemptMessage,
    LineKept,
    NotCompleted,
    Progressed,
    RunAttempt,
)
from rowcall.worker.steps import facts_of


class ChildLines(NamedTuple):
    """What `ctx.log` writes goes to the worker, which keeps it."""

    lowest: int
    add: Callable[[int, str], None]


class ChildAttempt:
    def __init__(
        self,
        call: RunAttempt,
        task: Declaration,
        send: Callable[[AttemptMessage], None],
        lifespan: ChildLifespan,
    ) -> None:
        self.ready = call.ready
        self.cancelled = False
        self.saw_cancelled = False
        self.is_over = False
        self.resources = lifespan.resources
        self.worker_values = lifespan.values
        self.context = Context(self)
        self._call = call
        self._task = task
        self._queue = queue = task.queue if isinstance(task.queue, Queue) else None
        self._send = send
        self._then: Then | None = None
        self._completed = False
        self._reported: Mark | None = None
        self._asking = threading.Lock()
        self.answers: SimpleQueue[Answered] = SimpleQueue()
        clock = queue.clock if queue is not None else SystemClock()
        self._timer = clock.timer
        self._began_at = self._timer()
        self.steps = Steps(
            ChildSteps(self.ready.type, self._ask, self._own_queue),
            facts_of(self.ready, task, clock, lambda: self.is_over),
        )

    @property
    def log_fields(self) -> dict[str, object]:
        ready = self.ready
        fields = {"job_id": ready.id, "job_type": ready.type, "job_queue": ready.queue, "job_attempt": ready.attempt}
        return {**fields, "worker": self._call.worker}

    @property
    def log_lines(self) -> ChildLines | None:
        return None if self._call.lowest_kept is None else ChildLines(self._call.lowest_kept, self._send_line)

    def _send_line(self, level: int, text: str) -> None:
        if not self.is_over:
            line = text.encode("utf-8", "replace").decode()
            self._send(LineKept(level, line, place_of(self.steps.last_call)))

    def claimed_job(self) -> Job:
        return job_of(self.ready, self._call.worker, self._call.claimed_at_ms)

    def claimed_jobs(self) -> list[Job]:
        return [self.claimed_job()]

    def report(self, share: float, message: str | None) -> None:
        if not self.is_over:  # a thread that the handler left behind must not report about the next job
            replays = self.steps.replays
            self._reported = Mark(*self.ready.fence, progress=share, message=message, replays=int(replays))
            self._send(Progressed(share, message, replays))

    def stream(self, value: object, name: str) -> None:
        text = value_text(self.ready.type, value)
        self._ask(Asked("stream", task=name, payload=text, last_call=self.steps.last_call))

    def confirm_report(self) -> None:
        """Send the last report again if no earlier attempt came further, which is known after its steps were read."""
        if self._reported is not None and self._reported.replays and not self.steps.replays:
            self._send(Progressed(self._reported.progress or 0.0, self._reported.message, replays=False))

    def complete(self, result: object, connection: object) -> None:
        completion, checked = self._completion(), checked_result(self.ready.type, result, self._task.result_decoder)
        with self._completing() as (ending, done):
            completion.queue.run(completion.complete(self.ready, checked, ending, connection, done))

    async def acomplete(self, result: object, connection: object) -> None:
        completion, checked = self._completion(), checked_result(self.ready.type, result, self._task.result_decoder)
        with self._completing() as (ending, done):
            await completion.queue.arun(completion.complete(self.ready, checked, ending, connection, done))

    @contextlib.contextmanager
    def _completing(self) -> Iterator[tuple[CompletingAttempt, Callable[[], None]]]:
        age_ms = int((self._timer() - self._began_at) * 1000)
        waited_ms = self.ready.waited_ms(self._call.claimed_at_ms)
        values = self._ask(Asked("complete")).values
        try:
            yield CompletingAttempt(waited_ms, age_ms, self._then, self._reported, values=values), self._note_completion
        except BaseException:
            if not self._completed:
                self._send(NotCompleted())
            raise

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Raise what ends the attempt in place of what the handler returned or raised, if anything."""
        try:
            yield
        except BaseException as error:
            if (ended := self.steps.end(error)) is None:
                raise
            raise ended from None
        if not self._completed and (ended := self.steps.end()) is not None:
            raise ended

    def _note_completion(self) -> None:
        self._completed = True

    def continue_with(self, task: object, arguments: tuple[object, ...], options: dict[str, object]) -> None:
        if (
            isinstance(task, str)
            and not arguments
            and self._queue is not None
            and self._queue.declared.enqueue_middleware
        ):
            task, options = bind(self._queue, task, (), options), {}
        if isinstance(task, str) and not arguments:
            asked = Asked("continue_with", task=task, payload=untyped_to_json(task, options))
        else:
            bound = _bound(task, arguments, options)
            asked = Asked("continue_with", job=with_derived(step_job(bound), bound.payload), payload=bound.payload)
        self._then = self._ask(asked).then

    def use_units(self, limit: str, units: int) -> None:
        self._ask(Asked("used", task=limit, payload=str(units)))

    def blockers(self) -> list[object]:
        value = self._ask(Asked("blockers")).value
        return value if isinstance(value, list) else []

    def previous(self) -> object:
        return self._ask(Asked("previous")).value

    def batch_of_job(self) -> Batch | None:
        queue = self._own_queue("batch")
        return queue.run(batch_of_job(queue, self.ready.id))

    def _ask(self, question: Asked) -> Answered:
        if self.is_over:
            raise RuntimeError(f"ctx.{question.what} was called after the handler had ended")
        with self._asking:
            self._send(question)
            answer = self.answers.get()
        if answer.failed is not None:
            raise rebuilt(answer.failed)
        return answer

    def _completion(self) -> Completion:
        return Completion(self._own_queue("complete"))

    def _own_queue(self, what: str) -> Queue:
        if self._queue is None:
            raise RuntimeError(
                f"ctx.{what} in a child process works only if the module of the function declares the task: "
                "the child learns from it where the queue is"
            )
        return self._queue


def _bound(task: object, arguments: tuple[object, ...], options: dict[str, object]) -> Bound:
    bind = getattr(task, "bind", None)
    if isinstance(task, Bound) and not (arguments or options):
        return task
    if bind is None:
        raise InvalidOption(
            "task", f"must be a task, a task with options, or a name with arguments by name, got {task!r}"
        )
    bound: Bound = bind(*arguments, **options)
    return bound
