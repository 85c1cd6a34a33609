"""One attempt in this process: the claimed job, its task, and how it ended."""

from __future__ import annotations

import contextlib
from asyncio import CancelledError
from asyncio import Task as AsyncTask
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from rowcall.base.clock import Clock
from rowcall.context import Context
from rowcall.declare.declaration import Declaration
from rowcall.declare.retry_policy import policy_of
from rowcall.declare.tracing import Processing, Tracing
from rowcall.domain.blobs import MARK, TOO_LARGE_CODE
from rowcall.domain.encryption import Kind, is_hidden
from rowcall.domain.errors import (
    CannotDecrypt,
    Control,
    DataRefused,
    InvalidArguments,
    InvalidOption,
    JobCancelled,
    JobFailed,
    PushFailed,
    StepError,
    Suspend,
    TooLarge,
    WrongState,
    child_code,
)
from rowcall.domain.job import Job, StackFrame
from rowcall.domain.job_log import AttemptLines, LogRow, place_of
from rowcall.domain.lifecycle import Move
from rowcall.domain.limits import NOTHING_USED, Breaker, LimitNote, UsedUnits
from rowcall.domain.outcome import (
    DEADLINE_CODE,
    SUCCESS,
    AttemptBudget,
    CancelRequested,
    Lost,
    Mismatched,
    Outcome,
    Raised,
    Released,
    Reported,
    Succeeded,
    TimedOut,
    Transition,
    Unfit,
    decide,
    noted,
    success_with,
)
from rowcall.domain.payload import BAD_RESULT_CODE, HANDLER_RETURNED, MISMATCH_CODE, PayloadUnfit, checked_result
from rowcall.domain.push import LeftOpen
from rowcall.domain.step import CHANGED_CODE
from rowcall.domain.stream import StreamRow, value_text
from rowcall.drivers.liveness_file import NO_SLOT
from rowcall.durable.handler_steps import Steps
from rowcall.observe.shown_exceptions import Shown, drop_callers, frames_of, shown, without_variables
from rowcall.operations.batches import Batch
from rowcall.operations.by_hand import job_of
from rowcall.queue import Operation, Queue
from rowcall.store.ends.next_steps import Then
from rowcall.store.queries.claims import Mark, Ready
from rowcall.worker.completion import CompletingAttempt, Completion
from rowcall.worker.registrar import Identity, Lease
from rowcall.worker.steps import AttemptSteps, facts_of
from rowcall.worker.streams import AttemptStream, unwritten

ROLLED_BACK_CODE = "COMPLETION:ROLLED_BACK"
ROLLED_BACK_DETAIL = "the handler completed the job in a transaction that was not committed"

Stop = TimedOut | Released | CancelRequested | Lost
"""Why a handler should stop. `Lost`: its attempt was ended from outside, and its outcome is dropped."""


Finished = Callable[["Attempt"], "Attempt | None"]
"""What a lane calls when a handler has ended. It returns the next attempt for the lane, if there is one."""


class LeaseInDoubt(Exception):
    """The worker was out of touch for its whole lease: the job is released, not started."""


@dataclass(frozen=True, slots=True)
class CommonFacts:
    """What the attempts of one round have in common."""

    identity: Identity
    claimed_at_ms: int
    clock: Clock
    completion: Completion
    tracing: Tracing | None = None
    lease: Lease | None = None
    log_start: Callable[[Attempt], None] | None = None
    """Set where starts are logged."""
    any_breakers: bool = False
    """Whether the app declares a limit with a breaker: to ask for those of each job is a part of each drain."""


class Attempt:
    # class attributes, as few attempts change them
    started_at = 0.0
    finished_at = 0.0
    file_slot = NO_SLOT
    settled = False
    completed = False
    cancelled = False
    saw_cancelled = False
    ends_at_deadline = False
    """Whether its job must end before its own timeout."""
    stopped_because: Stop | None = None
    failed_while_stopping: Raised | Reported | None = None
    """What its handler raised after it was asked to stop; this does not use up the attempt."""
    exception: Shown | None = None
    """What the log shows of the exception that its handler raised."""
    kept_error: BaseException | None = None
    """What its handler raised, where a drain is to raise it."""
    transition: Transition | None = None
    reported: Mark | None = None
    """The last progress that its handler reported."""
    left_open = False
    """Whether its target is to call back."""
    large_result: str | None = None
    """A result that `put_large_result` must store elsewhere before `end`."""
    completed_result: str | None = None
    """What its handler completed the job with."""
    then: Then | None = None
    async_task: AsyncTask[None] | None = None
    trace: Processing | None = None
    batch: object | None = None
    """The `BatchCall` that this attempt is part of, if any."""
    used_units: Mapping[str, UsedUnits] = NOTHING_USED
    """How many units of limits its handler says to have used, by their names."""
    _context: Context | None = None
    _steps: Steps | None = None
    _recorded: AttemptSteps | None = None
    streamed: AttemptStream | None = None
    lines: AttemptLines | None = None
    """What its handler has logged."""

    def __init__(self, ready: Ready, task: Declaration, common: CommonFacts, buffered: bool = False) -> None:
        self.ready = ready
        self.task = task
        self.common = common
        self.timeout_seconds = ready.timeout_seconds or task.options.timeout_seconds
        if task.defaults is not None and self.timeout_seconds is None:
            self.timeout_seconds = task.defaults.timeout_seconds(ready.queue)
        if ready.deadline_at_ms is not None:
            left_seconds = max(0.001, (ready.deadline_at_ms - common.claimed_at_ms) / 1000)
            self.ends_at_deadline = self.timeout_seconds is None or left_seconds <= self.timeout_seconds
            if self.ends_at_deadline:
                self.timeout_seconds = left_seconds
        self.marked = not buffered  # whether the row says that it was started

    @property
    def attempts(self) -> Sequence[Attempt]:
        """What a call of the handler serves."""
        return (self,)

    @property
    def fence(self) -> tuple[int, int]:
        """The job's id and the lease of this attempt, which identify its slots."""
        return self.ready.id, self.ready.lease

    @property
    def waited_ms(self) -> int:
        """How long the job was due before it was claimed."""
        return self.ready.waited_ms(self.common.claimed_at_ms)

    @property
    def ran_ms(self) -> int | None:
        """How long the handler ran; None if it never started."""
        return int((self.finished_at - self.started_at) * 1000) if self.started_at else None

    @property
    def context(self) -> Context:
        """Created at first use: most handlers need none."""
        if self._context is None:
            self._context = Context(self)
        return self._context

    @property
    def steps(self) -> Steps:
        if self.completed:
            raise WrongState(self.ready.id, "completed", "run a step of", [], "it is completed already")
        if self._steps is None:
            store = self._recorded = self.common.completion.steps_of(self.ready, self._unwritten)
            self._steps = Steps(store, facts_of(self.ready, self.task, self.common.clock, self._is_over))
        return self._steps

    def _is_over(self) -> bool:
        return bool(self.finished_at) or self.settled

    @property
    def resources(self) -> object:
        return self.common.completion.resources

    @property
    def worker_values(self) -> Mapping[Callable[..., object], object]:
        return self.common.completion.worker_values

    @property
    def log_fields(self) -> dict[str, object]:
        """The fields of log records about this attempt."""
        ready = self.ready
        fields = {"job_id": ready.id, "job_type": ready.type, "job_queue": ready.queue, "job_attempt": ready.attempt}
        traced = self.trace.log_fields if self.trace is not None else {}
        return {**fields, "worker": self.common.identity.name, **traced}

    @property
    def log_lines(self) -> AttemptLines | None:
        if self.lines is None and not self._is_over():
            self.lines = self.common.completion.new_lines(self.task)
            if self.lines is not None and not self.ready.is_first:
                self.lines.place = self._place
        return self.lines

    def _place(self) -> int:
        return 0 if self._steps is None else place_of(self._steps.last_call)

    def log_row(self) -> LogRow | None:
        """Return what is kept of the log, as its row."""
        last_pause = 0 if self._recorded is None else self._recorded.last_pause
        if self.lines is None or not (lines := self.lines.read(last_pause)):
            return None
        ready, cipher = self.ready, self.common.completion.blobs.cipher
        if cipher is None:
            return LogRow(ready.id, ready.lease, ready.attempt, lines)
        text = cipher.encrypted_text(msgspec.json.encode(lines).decode(), ready.type, Kind.LOG)
        return LogRow(ready.id, ready.lease, ready.attempt, text)

    def claimed_job(self) -> Job:
        completion = self.common.completion
        job = job_of(self.ready, self.common.identity.name, self.common.claimed_at_ms)
        if job.error_detail is None:
            return job
        detail = completion.blobs.opened_text(job.error_detail, job.type, Kind.ERROR)
        return msgspec.structs.replace(job, error_detail=detail)

    def claimed_jobs(self) -> list[Job]:
        return [self.claimed_job()]

    def start(self) -> tuple[list[object], dict[str, object]] | None:
        """Return the arguments to call the function with, or None if `fetch` must read something first.

        `PayloadUnfit` where the row does not fit.
        """
        self.begin()
        task = self.task
        if task.preloads or (task.preloads_steps and not self.ready.is_first) or self.refers():
            return None
        return self.arguments()

    def refers(self) -> bool:
        """Whether its payload, or an outcome in it, may be in a blob store or encrypted, or must be."""
        if MARK in self.ready.payload:
            return self.task.takes_outcome or is_hidden(self.ready.payload)
        return self.common.completion.blobs.requires

    def begin(self) -> None:
        """Call before the handler, in its thread. Raise `LeaseInDoubt` if the job may belong to another worker."""
        common = self.common
        started_at = common.clock.monotonic()
        if common.lease is not None and started_at > common.lease.ends_at:
            raise LeaseInDoubt
        if (file := common.identity.liveness_file) is not None:
            self.file_slot = file.mark_started(self.ready.id, self.ready.lease, started_at)
        self.started_at = started_at
        if common.log_start is not None:
            common.log_start(self)
        if common.tracing is not None:
            self.trace = common.tracing.processing(self.ready, common.identity.name)
            if self.settled and self.transition is not None:  # given up before its thread started it
                self.trace.end(self.transition)

    def fetch(self) -> None:
        """Read a large payload, and what the context of an async handler must have before it starts."""
        fetch, takes_outcome = self.common.completion.blobs.payload, self.task.takes_outcome
        self.ready.payload = fetch(self.ready.payload, self.ready.type, takes_outcome=takes_outcome)
        self.context._preload(self.task.preloads, steps=self.task.preloads_steps)

    def arguments(self) -> tuple[list[object], dict[str, object]]:
        args, kwargs = self.task.arguments.from_json(self.ready.payload)
        if self.task.takes_context:
            args.insert(0, self.context)
        return args, kwargs

    def report(self, share: float, message: str | None) -> None:
        self.note_report(share, message, replays=self._replays)

    @property
    def _replays(self) -> bool:
        return not self.ready.is_first if self._steps is None else self._steps.replays

    def last_report(self) -> Mark | None:
        """Return the last report of an attempt that has ended: no repetition, if all recorded steps came after it."""
        if self.reported is not None and self.reported.replays and not self._replays:
            return msgspec.structs.replace(self.reported, replays=0)
        return self.reported

    def note_report(self, share: float, message: str | None, *, replays: bool) -> None:
        if not self.settled:
            self.reported = Mark(*self.ready.fence, progress=share, message=message, replays=int(replays))
            if not self.completed:  # otherwise its handler may lock the row, and may still roll back
                self.common.completion.progress.note(self.reported, self.ready.type)

    def stream(self, value: object, name: str) -> None:
        self.append(name, value_text(self.ready.type, value), 0 if self._steps is None else self._steps.last_call)

    def append(self, name: str, text: str, step: int | None) -> None:
        """Append a value to a stream. `step`: where the handler was, as `Steps.last_call` says."""
        if self._is_over():
            raise RuntimeError("ctx.stream was called after the handler had ended")
        if self.completed:
            raise WrongState(self.ready.id, "completed", "append to a stream of", [], "it is completed already")
        streams = self.common.completion.streams
        streams.append(self.streamed or streams.open(self), name, text, step)

    def unwritten_values(self) -> list[StreamRow]:
        """Return what the handler has appended to streams, and may not be written."""
        asked = self._unwritten()
        return [] if asked is None else self.common.completion.queue.run(asked)

    def _unwritten(self) -> Operation[list[StreamRow]] | None:
        return None if self.streamed is None else unwritten(self.common.completion.queue, self.streamed)

    @property
    def last_recorded(self) -> int | None:
        return None if self._recorded is None else self._recorded.last_recorded

    def complete(self, result: object, connection: object) -> None:
        completion = self.common.completion
        checked = checked_result(self.ready.type, result, self.task.result_decoder)
        self.completed_result, ending = checked, self._ending()
        with self.completing() as done:
            completion.queue.run(completion.complete(self.ready, checked, ending, connection, done))

    async def acomplete(self, result: object, connection: object) -> None:
        completion = self.common.completion
        checked = checked_result(self.ready.type, result, self.task.result_decoder)
        self.completed_result, ending = checked, self._ending()
        with self.completing() as done:
            await completion.queue.arun(completion.complete(self.ready, checked, ending, connection, done))

    @contextlib.contextmanager
    def completing(self) -> Iterator[Callable[[], None]]:
        """Mark the attempt before its lease changes: in autocommit mode other workers see that at once.

        Remove the mark after an exception, unless the yielded function was called: then all was written.
        """
        before, self.completed = self.completed, True

        def done() -> None:
            nonlocal before
            before = True

        try:
            yield done
        except BaseException:
            self.completed = before
            raise

    def continue_with(self, task: object, arguments: tuple[object, ...], options: dict[str, object]) -> None:
        if self._is_over():
            raise RuntimeError("continue_with was called after the handler had ended")
        if self.completed:
            raise WrongState(self.ready.id, "completed", "continue", [], "it is completed already")
        if self.then is not None:
            raise WrongState(self.ready.id, "running", "continue", [], "it has a next step already")
        self.then = self.common.completion.next_step(self.ready, task, arguments, options)

    def blockers(self) -> list[object]:
        return self.common.completion.blockers(self.ready)

    def previous(self) -> object:
        return self.common.completion.previous(self.ready)

    def use_units(self, limit: str, units: int) -> None:
        if self._is_over():
            raise RuntimeError("ctx.used was called after the handler had ended")
        known = self.common.completion.queue.declared.limits.declared.of(self.ready)
        reserved = {one.name: UsedUnits(0, one.units, one.numbers.span_ms) for one in known if one.units is not None}
        if limit not in reserved:
            names = ", ".join(map(repr, reserved)) or "none"
            raise InvalidOption("limit", f"{limit!r} is not a limit with units of this job (it has: {names})")
        before = self.used_units.get(limit, reserved[limit])
        self.used_units = {**self.used_units, limit: msgspec.structs.replace(before, used=before.used + units)}

    def batch_of_job(self) -> Batch | None:
        return self.common.completion.batch_of_job(self.ready.id)

    def _ending(self) -> CompletingAttempt:
        age_ms = int((self.common.clock.monotonic() - self.started_at) * 1000)
        return CompletingAttempt(
            self.waited_ms, age_ms, self.then, self.reported, self.streamed, log_row=self.log_row()
        )

    def succeed(self, result: object) -> None:
        if self.settled:
            return  # it was given up, and decided then
        self.finished_at = self.common.clock.monotonic()
        if self.completed:  # used only if the completion was rolled back
            self.transition = self._decide(self.stopped_because or Reported(ROLLED_BACK_CODE, ROLLED_BACK_DETAIL))
            return
        # asked to stop, and it returned: unless it checked `ctx.cancelled`, it has done all of its work
        if self.stopped_because is not None and (
            self.saw_cancelled or isinstance(self.stopped_because, TimedOut | Lost)
        ):
            self.transition = self._decide(self.stopped_because)
        elif self._steps is not None and (error := self._steps.end()) is not None:
            self._fail(error)
        elif result is None and not (
            self.task.follows_success or (self.common.any_breakers and self._breakers) or self.used_units
        ):
            self.transition = SUCCESS
        else:
            try:
                text = checked_result(self.ready.type, result, self.task.result_decoder, HANDLER_RETURNED)
                if text is not None and len(text) > self.common.completion.blobs.inline_length:
                    self.large_result = text
                else:
                    self.transition = self._followed(success_with(text))
            except InvalidArguments as error:
                code = error.error_code or BAD_RESULT_CODE
                self.transition = self._decide(Unfit(code, self.task.failures.detail(error.problem)))

    def put_large_result(self) -> Outcome:
        """Store the large result. Called in a thread that may block."""
        try:
            return Succeeded(self.common.completion.blobs.stored(self.ready.type, self.large_result, Kind.RESULT))
        except TooLarge as error:
            detail = f"the result is too large: {error.problem}"
            return Unfit(TOO_LARGE_CODE, self.task.failures.detail(detail))

    def end(self, outcome: Outcome) -> None:
        self.large_result = None
        if not self.settled:
            self.transition = self._decide(outcome)

    def fail(self, error: BaseException | Raised | Reported | Unfit) -> None:
        """The handler has ended with an exception."""
        if self.settled:
            return
        try:
            self._fail(error if self._steps is None else self._steps.end(error) or error)
        except BaseException as broken:  # the app's retry policy or exception is broken: free the slot anyway
            self._end_without_policy(self.task.failures.unfit(broken))

    def _fail(self, error: BaseException | Raised | Reported | Unfit) -> None:
        self.finished_at = self.common.clock.monotonic()
        if isinstance(error, LeftOpen):
            self.left_open = True
            self.stop(Lost())
            return
        stopped = self.stopped_because
        if stopped is not None and (isinstance(error, CancelledError) or not isinstance(stopped, Released)):
            if isinstance(stopped, TimedOut) and isinstance(error, BaseException):
                self.show_timeout(stopped, frames_of(drop_callers(error)))
            self.transition = self._decide(stopped)
            return
        if isinstance(error, LeaseInDoubt):
            self.transition = self._decide(Released(started=False))
            return
        if isinstance(error, Suspend):
            error = _suspended(error)
        elif isinstance(error, PushFailed):  # a traceback would show no line of the app
            detail = self.task.failures.detail(error.detail)
            error = Unfit(error.code, detail) if error.final else Raised(error, error.code, detail)
        elif isinstance(error, PayloadUnfit):
            error = self.task.failures.unfit(error, error.code)
        elif isinstance(error, InvalidArguments | StepError | CannotDecrypt) and error.error_code is not None:
            # from `complete`; or the payload, or the result of another job, which another attempt could not read either
            error = self.task.failures.unfit(error, error.error_code)
        elif isinstance(error, JobFailed | JobCancelled) and error.parent_id == self.ready.id:
            error = self.task.failures.unfit(error, child_code(error))
        elif isinstance(error, BaseException):
            if self.task.failures.keeps_tracebacks:
                self.exception = shown(drop_callers(error), self.task.failures.scrub)
            raised = self.task.failures.raised(error)
            self._keep(error)
            error = raised
        elif isinstance(error, Raised):
            self._keep(error.error)
        if isinstance(error, Raised) and isinstance(error.error, Control) and error.error.hold is not None:
            error = self._checked_hold(error, error.error.hold)
        if stopped is None or isinstance(error, Unfit) or _is_chosen(error):
            self.transition = self._decide(self._unfit(error) if isinstance(error, Unfit) else error)
        else:
            self.failed_while_stopping = error
            self.transition = self._decide(stopped)

    def _checked_hold(self, error: Raised, hold: str) -> Raised | Unfit:
        """Return the error, or that it names a limit which cannot be held: a typo is not retried."""
        limits = self.common.completion.queue.declared.limits
        try:
            limits.check_hold(hold, limits.declared.of(self.ready))
        except InvalidOption as problem:
            return self.task.failures.unfit(problem)
        return error

    def _keep(self, error: BaseException) -> None:
        if self.common.completion.keeps_errors:
            self.kept_error = without_variables(drop_callers(error))

    def show_timeout(self, outcome: TimedOut, frames: list[StackFrame]) -> None:
        """Let the log show where the handler was."""
        if self.task.failures.keeps_tracebacks:
            self.exception = Shown(TimeoutError, f"the handler ran for more than {outcome.seconds:g} s", frames)

    def _unfit(self, unfit: Unfit) -> Unfit | Mismatched:
        """What does not fit here may fit another worker; a payload that is not an object fits none."""
        queue = self.task.queue
        grace_seconds = queue.config.mismatch_grace_seconds if isinstance(queue, Queue) else 0.0
        if unfit.code == CHANGED_CODE and grace_seconds:
            return Mismatched(unfit.detail, self.task.source, CHANGED_CODE)
        if unfit.code != MISMATCH_CODE or not grace_seconds or not self.ready.payload.lstrip().startswith("{"):
            return unfit
        return Mismatched(unfit.detail, self.task.arguments.fingerprint)

    def fail_refused(self, error: DataRefused) -> None:
        """The database refuses what the handler returned or raised, or what it has appended to a stream."""
        if self.streamed is not None:
            self.streamed.lose()
        self._end_without_policy(Unfit(error.error_code, self.task.failures.detail(str(error))))

    def release_unstarted(self) -> None:
        self.settled = True
        self._end_without_policy(Released(started=False))

    def give_up(self, outcome: Stop) -> None:
        """End an attempt whose handler has not ended, or will never start."""
        self.finished_at = self.common.clock.monotonic()
        self.transition = self._decide(outcome)
        if self.trace is not None:
            self.trace.end(self.transition)

    def end_trace(self) -> None:
        """Call when the handler has ended, in its thread."""
        if self.trace is not None:
            self.trace.end(None if self.ended_completed else self.transition)
            self.trace.leave()

    @property
    def ended_completed(self) -> bool:
        """Whether its handler completed the job and did not fail afterwards."""
        code = self.transition.error_code if self.transition is not None else None
        return code == ROLLED_BACK_CODE or (self.completed and code is None)

    def stop(self, because: Stop) -> None:
        """Ask the handler to stop."""
        if not isinstance(self.stopped_because, Lost):
            self.stopped_because = because
        self.cancelled = True

    def _end_without_policy(self, outcome: Outcome) -> None:
        self.transition = self._followed(decide(AttemptBudget(self.ready.attempt, self.ready.max_attempts), outcome))

    def _decide(self, outcome: Outcome) -> Transition:
        if self.ends_at_deadline and isinstance(outcome, TimedOut):
            outcome = Unfit(DEADLINE_CODE, "the handler still ran at the deadline of the job")
        budget = AttemptBudget(self.ready.attempt, self.ready.max_attempts)
        policy = policy_of(self.task, self.ready.retry, self.ready.queue, self.task.defaults)
        return self._followed(decide(budget, outcome, policy, chance=self.common.clock.chance()))

    @property
    def _breakers(self) -> Mapping[str, Breaker]:
        limits = self.common.completion.queue.declared.limits
        return limits.breakers_of(self.ready) if limits.breakers else limits.breakers

    @property
    def note_of_success(self) -> LimitNote | None:
        """What a success that its handler has committed says to limits."""
        return noted(SUCCESS, self._breakers, self.used_units).note

    def _followed(self, transition: Transition) -> Transition:
        """Return the transition with what follows the end, in case the job's row does not say, and what it says to
        limits.
        """
        transition = noted(transition, self._breakers, self.used_units)
        task, queue = self.task, self.task.queue
        if (transition.move is Move.SUCCEED and not task.follows_success) or not isinstance(queue, Queue):
            return transition
        return queue.declared.follow_ups.followed(transition, self.ready.type, self.ready.queue)


def clear_started(attempts: list[Attempt]) -> None:
    """Remove settled attempts from the liveness file: recovery need not know any more whether they had begun."""
    # mostly one identity; a group costs a tenth of one by one
    for identity in {attempt.common.identity for attempt in attempts}:
        if identity.liveness_file is not None:
            identity.liveness_file.free(
                [attempt.file_slot for attempt in attempts if attempt.common.identity is identity]
            )


def _is_chosen(error: Raised | Reported) -> bool:
    """Return whether the handler chose how the attempt ends: `Retry`, `Snooze`, `Fail` or `Cancel`, or a sleep."""
    return isinstance(error, Raised) and isinstance(error.error, Control | Suspend)


def _suspended(suspend: Suspend) -> Raised:
    return Raised(suspend, "", "")
