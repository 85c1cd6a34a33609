"""Every error that Rowcall raises.

RowcallError
├── InvalidArguments (TypeError)      a call that does not match the task's signature, or a value that is not JSON
│   └── TooLarge                      arguments or a result larger than `payload_limit`
├── InvalidOption (ValueError)        an option that is unknown, out of range or not allowed here
│   └── InvalidCode                   a malformed error code; in a handler it fails the job at once, as `Fail` does
├── UnknownTask (LookupError)         no task of that name is declared in this process
├── UnknownEvent (LookupError)        no task that is declared in this process runs on that event
├── DuplicateTask (ValueError)        two tasks with one name
├── DuplicateJob                      a job with that key exists
├── JobNotFound (LookupError)         no job with that id
│   └── ChainNotFound                 no chain starts with that job
├── ScheduleNotFound (LookupError)    no schedule with that name
├── LimitNotFound (LookupError)       no limit with that name
├── BatchNotFound (LookupError)       no batch with that id
├── BatchSealed                       the batch is sealed, so no job can be added
├── BatchNotOver                      jobs of the batch have not ended
├── JobFailed                         the job has failed, so it has no result
├── JobCancelled                      the job was cancelled, so it has no result
├── LeaseLost                         the attempt is no longer the caller's
├── WrongState                        the job's state does not allow this
├── PushRefused                       a pushed request, or a callback, whose signature is missing, wrong or old
├── PushFailed                        a delivery that failed, as retry policies see it
├── NoAnswer (TimeoutError)           a worker did not answer in time
├── LifespanFailed                    the app's lifespan could not be entered or left
├── StepError                         a durable step cannot be run; the job fails at once
│   ├── StepsChanged                  the steps come in another order than recorded
│   └── SignalTimeout (TimeoutError)  no signal came in time
├── StepTimeout (TimeoutError)        the function of a step ran too long; the attempt is retried
├── StillNeeded                       other jobs wait for the job or the chain
├── SchemaMismatch                    the tables are missing, or have another version than this code
├── BlobUnreadable                    a large payload or result cannot be read back
│   ├── BlobMissing                   the blob store does not have it
│   └── BlobDamaged                   the blob store returned different bytes
├── CannotDecrypt                     no key of this process decrypts a payload or result
└── StoreUnavailable                  the database cannot be opened, read or written
    ├── MovedTo                       the queue has moved to another database, by `rowcall move`
    ├── Conflict                      another transaction changed the same rows; nothing was written
    ├── FileReplaced                  the file was deleted or replaced while it was open
    └── DataRefused                   the database refuses the values
        └── StepTaken                 the chain already has that step

Control                               raised by handlers, to choose how an attempt ends
├── Retry · Snooze · Fail · Cancel

Suspend (BaseException)               raised by `ctx.sleep` and `ctx.wait_for` to end the attempt; let it pass
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sized
from datetime import UTC, datetime, timedelta

from rowcall.base.text import DETAIL_LENGTH, code_problem, did_you_mean, storable
from rowcall.base.times import milliseconds_of, time_of

_EARLIEST = datetime(1973, 3, 4, tzinfo=UTC)


class RowcallError(Exception):
    """The base class of all errors of this package.

    `row` is the row that it is about, counted from 0, if one call enqueues several jobs.
    """

    row: int | None = None

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.row is None else f"row {self.row}: {text}"


@contextlib.contextmanager
def in_row(rows: Sized, row: int) -> Iterator[None]:
    """Let an error say which row it is about, if there are several."""
    try:
        yield
    except RowcallError as error:
        error.row = row if len(rows) > 1 else None
        raise


VERBS = ["belongs", "cannot", "does", "goes", "has", "is", "leads", "must", "names", "needs", "uses", "was", "works"]
"""A problem that begins with one of these makes a sentence with the option as its subject."""


def about_option(option: str, problem: str) -> str:
    """
    >>> about_option("connection", "is closed"), about_option("tz", "unknown time zone 'x'")
    ('connection is closed', "tz: unknown time zone 'x'")
    """
    return f"{option} {problem}" if problem.split(" ", 1)[0] in VERBS else f"{option}: {problem}"


class InvalidArguments(RowcallError, TypeError):
    """A call that does not match the task's signature, or a value that is not JSON."""

    error_code: str | None = None
    """The code of a job whose handler does not catch it; None if it is an error like others."""

    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"{task}: {problem}")
        self.task = task
        self.problem = problem


class InvalidOption(RowcallError, ValueError):
    """An option that is unknown, out of range or not allowed here."""

    def __init__(self, option: str, problem: str, message: str = "") -> None:
        super().__init__(message or about_option(option, problem))
        self.option = option
        self.problem = problem


def unknown_option(name: str, known: Iterable[str], what: str = "option") -> InvalidOption:
    hint = did_you_mean(name, known) or f"; known {what}s: {', '.join(sorted(known))}"
    problem = f"unknown {what} {name!r}{hint}"
    return InvalidOption(name, problem, message=problem)


def refuse_unknown(options: Iterable[str], known: Collection[str], what: str = "option") -> None:
    for name in sorted(set(options) - set(known)):
        raise unknown_option(name, known, what)


class TooLarge(InvalidArguments):
    """The arguments or the result are larger than `payload_limit`."""


class UnknownTask(RowcallError, LookupError):
    """No task with that name is declared in this process."""

    def __init__(self, task: str, known: list[str]) -> None:
        names = ", ".join(known) or "none"
        super().__init__(f"unknown task {task!r}{did_you_mean(task, known)}; declared here: {names}")
        self.task = task
        self.known = known


class UnknownEvent(RowcallError, LookupError):
    """No task that is declared in this process runs on that event."""

    def __init__(self, event: str, known: list[str]) -> None:
        names = ", ".join(known) or "none"
        super().__init__(f"unknown event {event!r}{did_you_mean(event, known)}; events with tasks here: {names}")
        self.event = event
        self.known = known


class DuplicateTask(RowcallError, ValueError):
    """Two tasks are declared with one name."""

    def __init__(self, task: str) -> None:
        super().__init__(f"a task named {task!r} is already declared; rename one with task(name=…)")
        self.task = task


class DuplicateJob(RowcallError):
    """A job with that key exists."""

    def __init__(self, task: str, key: str, job_id: int) -> None:
        super().__init__(f"{task}: job {job_id} already has the key {key!r}")
        self.task = task
        self.key = key
        self.job_id = job_id


class JobNotFound(RowcallError, LookupError):
    """No job has that id."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"job {job_id} does not exist")
        self.job_id = job_id


class ScheduleNotFound(RowcallError, LookupError):
    """There is no schedule with that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"schedule {name!r} does not exist")
        self.name = name


class LimitNotFound(RowcallError, LookupError):
    """There is no limit with that name."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"limit {name!r} does not exist{did_you_mean(name, known)}")
        self.name = name


class BatchNotFound(RowcallError, LookupError):
    """No batch has that id."""

    def __init__(self, batch_id: int) -> None:
        super().__init__(f"batch {batch_id} does not exist")
        self.batch_id = batch_id


class BatchSealed(RowcallError):
    """The batch is sealed, so no job can be added to it. Nothing was written."""

    def __init__(self, batch_id: int) -> None:
        super().__init__(f"batch {batch_id} is sealed: add jobs before seal(), or make another batch")
        self.batch_id = batch_id


class BatchNotOver(RowcallError):
    """Jobs of the batch have not ended. Nothing was written."""

    def __init__(self, batch_id: int) -> None:
        super().__init__(f"cannot delete batch {batch_id}: some of its jobs have not ended; cancel them first")
        self.batch_id = batch_id


class ChainNotFound(JobNotFound):
    """No chain starts with that job."""

    def __init__(self, chain_id: int) -> None:
        super().__init__(chain_id)
        self.args = (f"chain {chain_id} does not exist; the id of a chain is the id of its first job",)


class JobFailed(RowcallError):
    """The job has failed, so it has no result."""

    def __init__(self, job_id: int, error_code: str, error_detail: str | None, *, parent_id: int | None = None) -> None:
        """`parent_id`: the job whose handler has called this one by `ctx.call`, and gets its error."""
        super().__init__(f"job {job_id} failed with {error_code}" + (f": {error_detail}" if error_detail else ""))
        self.job_id = job_id
        self.error_code = error_code
        self.error_detail = error_detail
        self.parent_id = parent_id


class JobCancelled(RowcallError):
    """The job was cancelled, so it has no result."""

    def __init__(self, job_id: int, reason: str | None, *, parent_id: int | None = None) -> None:
        """`parent_id`: see `JobFailed`."""
        super().__init__(f"job {job_id} was cancelled" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.reason = reason
        self.parent_id = parent_id


def child_code(error: JobFailed | JobCancelled) -> str:
    """Return the code with which a job fails whose handler does not catch the error of its child."""
    return "CHILD:FAILED" if isinstance(error, JobFailed) else "CHILD:CANCELLED"


class LeaseLost(RowcallError):
    """The attempt is not, or no longer, the caller's. Nothing was written."""

    def __init__(self, job_id: int, message: str = "") -> None:
        said = f"this attempt of job {job_id} is no longer yours: it was settled, released or recovered"
        super().__init__(message or said)
        self.job_id = job_id


class WrongState(RowcallError):
    """The state of the job does not allow this. Nothing was written."""

    def __init__(self, job_id: int, status: str, move: str, allowed: list[str], problem: str = "") -> None:
        """`problem` replaces the sentence about the state."""
        super().__init__(f"cannot {move} job {job_id}: {problem}" if problem else _in_state(job_id, status, move))
        self.job_id = job_id
        self.status = status
        self.move = move
        self.allowed = allowed
        self.problem = problem


class NoAnswer(RowcallError, TimeoutError):
    """A worker did not answer in time. Nothing was changed."""

    def __init__(self, job_id: int, worker: str, seconds: float, problem: str) -> None:
        super().__init__(f"worker {worker}, which runs job {job_id}, did not answer within {seconds:g} s: {problem}")
        self.job_id = job_id
        self.worker = worker
        self.seconds = seconds
        self.problem = problem


class LifespanFailed(RowcallError):
    """The app's lifespan could not be entered, so that the worker claimed no job; or it could not be left."""

    def __init__(self, lifespan: str, problem: str) -> None:
        super().__init__(f"lifespan {lifespan} failed: {problem}")
        self.lifespan = lifespan
        self.problem = problem


class StepError(RowcallError):
    """A durable step cannot be run. If the handler does not catch it, the job fails at once with `error_code`."""

    def __init__(self, job_id: int, error_code: str, problem: str) -> None:
        super().__init__(f"job {job_id}: {problem}")
        self.job_id = job_id
        self.error_code = error_code
        self.problem = problem


class StepsChanged(StepError):
    """The handler calls other steps than an earlier attempt has recorded, or fewer."""


class SignalTimeout(StepError, TimeoutError):
    """`ctx.wait_for` received no signal in time."""


class StepTimeout(RowcallError, TimeoutError):
    """The function of a step ran longer than the `timeout` of `ctx.step`. The attempt fails, as by any other error."""

    def __init__(self, job_id: int, step: str, seconds: float) -> None:
        super().__init__(f"job {job_id}: step {step!r} ran longer than its timeout of {seconds:g} s")
        self.job_id = job_id
        self.step = step
        self.seconds = seconds


def _in_state(job_id: int, status: str, move: str) -> str:
    """Return why the state does not allow the move, and what to do.

    >>> _in_state(5, "running", "delete"), _in_state(5, "cancelled", "cancel")
    ('job 5 is running: wait for it to end, or cancel it first', 'job 5 has already been cancelled')
    """
    subject = f"the chain of job {job_id}" if move.endswith("the chain of") else f"job {job_id}"
    match status:
        case "running":
            return f"{subject} is running: wait for it to end, or cancel it first"
        case "succeeded" | "failed":
            return f"{subject} has already {status}"
        case "cancelled":
            return f"{subject} has already been cancelled"
    return f"{subject} is {status}: " + ("it will run without a retry" if move == "retry" else f"cannot {move} it")


class StillNeeded(RowcallError):
    """Other jobs wait for the job or the chain, so it cannot be deleted."""

    def __init__(self, job_id: int, needed_by: list[int]) -> None:
        some = ", ".join(map(str, needed_by[:5])) + (", …" if len(needed_by) > 5 else "")
        others = "1 other job waits" if len(needed_by) == 1 else f"{len(needed_by)} other jobs wait"
        super().__init__(f"cannot delete job {job_id}: {others} for it ({some})")
        self.job_id = job_id
        self.needed_by = needed_by


MISSING_ADVICE = (
    "run: rowcall migrate APP, which refuses tables that a newer Rowcall has made;"
    " if it finds them up to date, restore what is missing from a backup"
)


class SchemaMismatch(RowcallError):
    """The tables are missing, or have another version than this code."""

    def __init__(self, found: int, wanted: int, advice: str, problem: str = "") -> None:
        """`problem` replaces the sentence about the version."""
        self.found, self.wanted = found, wanted
        problem = problem or f"the tables have version {self.found}, this code needs version {self.wanted}"
        super().__init__(f"{problem}: {advice}")


class PushRefused(RowcallError):
    """A pushed request, or the token of a callback, that is not signed with one of the secrets, or not recently.

    Answer it with the status 401. `problem` says what is wrong.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class PushFailed(RowcallError):
    """A delivery to a target failed: what a callable in `retry=` gets. `retry_after` is in seconds, or None.

    With `final`, the job fails at once.
    """

    def __init__(self, code: str, detail: str, *, final: bool = False, retry_after: float | None = None) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail
        self.final = final
        self.retry_after = retry_after


class StoreUnavailable(RowcallError):
    """The database cannot be opened, read or written."""

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"{problem}. {advice}" if advice else problem)
        self.problem = problem
        self.advice = advice


class Conflict(StoreUnavailable):
    """A deadlock, a serialization failure or a lock timeout: the same call may succeed when it is repeated."""


MOVED = "this queue is moving, or has moved, to another database"
"""What the triggers of `rowcall move` say, in the queue that was left and in the one that is not complete yet."""


class MovedTo(StoreUnavailable):
    """The queue has moved to another database, by `rowcall move`. Nothing was written.

    `database` is the one that was left. Rows hold no address: `Rowcall(url, moves_to=other_url)` says where it went.
    """

    def __init__(self, database: str) -> None:
        super().__init__(
            f"{database}: {MOVED}",
            "Change the URL, or pass moves_to=… to Rowcall; if `rowcall move` was interrupted, run it again",
        )
        self.database = database


class FileReplaced(StoreUnavailable):
    """The database file was deleted or replaced while it was open: its claimed jobs are gone."""


class DataRefused(StoreUnavailable):
    """The database refuses these values: too large, or against a constraint of its tables."""

    error_code = "INVALID_OUTPUT:NOT_STORABLE"


class StepTaken(DataRefused):
    """The chain already has that step, so the handler cannot continue with another."""

    error_code = "CHAIN:STEP_TAKEN"


class BlobUnreadable(RowcallError):
    """A large payload or result cannot be read. It may become readable, so the attempt is retried."""


class BlobMissing(BlobUnreadable):
    """The blob store does not have it."""


class BlobDamaged(BlobUnreadable):
    """The blob store returned other bytes than the stored ones."""


class CannotDecrypt(RowcallError):
    """No key of this process decrypts a payload or result. `key_id` is what its row calls the key."""

    error_code = "INVALID_INPUT:CANNOT_DECRYPT"

    def __init__(self, key_id: str, problem: str) -> None:
        super().__init__(f"cannot decrypt: {problem}")
        self.key_id = key_id
        self.problem = problem


class Control(Exception):
    """Raised inside a handler to choose how the attempt ends; not a `RowcallError`."""

    said: str = ""  # the whole text, before it is shortened
    hold: str | None = None  # the limit to hold


class InvalidCode(InvalidOption, Control):
    """`Fail` with a malformed code. In a handler it fails the job at once, as `Fail` would: a typo is not retried."""


class Suspend(BaseException):
    """Ends the attempt without counting it, until `run_at_ms`, or until a signal comes.

    Not an `Exception`, so that a handler which catches its own errors does not catch it.
    """

    def __init__(self, run_at_ms: int | None, *, waits: bool = False) -> None:
        super().__init__("this attempt ends here, and the handler is called again later: do not catch this")
        self.run_at_ms = run_at_ms
        self.waits = waits


class Retry(Control):
    """Retry after `delay`, or at `run_at`. This attempt counts.

    `hold` names a limit: until then, no other job of it starts either, on any worker. Where the limit counts by an
    argument, only jobs with this job's value are held.

    >>> raise Retry(delay=5)
    Traceback (most recent call last):
    rowcall.Retry: retry in 5 s
    """

    def __init__(
        self,
        delay: float | timedelta | None = None,
        reason: str = "",
        *,
        run_at: datetime | None = None,
        hold: str | None = None,
    ) -> None:
        self.delay_seconds, self.run_at_ms = _delay_or_time(0.0 if delay is None and run_at is None else delay, run_at)
        self.hold = _limit_name(hold)
        self.said = reason
        self.reason = storable(reason, DETAIL_LENGTH)
        at = self.run_at_ms
        super().__init__(reason or (f"retry in {self.delay_seconds:g} s" if at is None else f"retry at {_written(at)}"))


class Snooze(Control):
    """Run the job again after `delay`, or at `run_at`. This attempt does not count. `hold`: see `Retry`."""

    def __init__(
        self, delay: float | timedelta | None = None, *, run_at: datetime | None = None, hold: str | None = None
    ) -> None:
        self.delay_seconds, self.run_at_ms = _delay_or_time(delay, run_at)
        self.hold = _limit_name(hold)
        at = self.run_at_ms
        super().__init__(f"snooze for {self.delay_seconds:g} s" if at is None else f"snooze until {_written(at)}")


def _limit_name(hold: object) -> str | None:
    if hold is not None and (not isinstance(hold, str) or not hold):
        raise InvalidOption("hold", f"must be the name of a limit, got {hold!r}")
    return hold


def _written(at_ms: int) -> str:
    return f"{time_of(at_ms):%Y-%m-%d %H:%M:%S} UTC"


def _delay_or_time(delay: float | timedelta | None, run_at: datetime | None) -> tuple[float, int | None]:
    if run_at is None:
        if delay is None:
            raise InvalidOption("delay", "is missing: pass delay=… or run_at=…")
        return seconds_of("delay", delay), None
    if delay is not None:
        raise InvalidOption("run_at", "cannot be combined with delay")
    return 0.0, moment_ms("run_at", run_at)


class Fail(Control):
    """Fail the job at once, even if attempts are left.

    A code is one or more words of letters, digits, `_`, `.` and `-`, joined by colons; otherwise this is `InvalidCode`.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        if problem := code_problem(code):
            raise InvalidCode("code", problem)
        self.code = code
        self.said = detail
        self.detail = storable(detail, DETAIL_LENGTH)
        super().__init__(f"{code}: {detail}" if detail else code)


class Cancel(Control):
    """End the job as `cancelled`."""

    def __init__(self, reason: str = "") -> None:
        self.said = reason
        self.reason = storable(reason, DETAIL_LENGTH)
        super().__init__(reason or "cancelled by the handler")


def moment_ms(option: str, value: object) -> int:
    """Return a time in milliseconds since 1970, or raise `InvalidOption`."""
    if not isinstance(value, datetime):
        raise InvalidOption(option, f"must be a datetime, got {value!r}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidOption(option, f"must have a time zone, such as datetime.now(UTC), got {value!r}")
    if value < _EARLIEST:
        raise InvalidOption(option, f"must be after {_EARLIEST:%Y-%m-%d}, got {value}")
    return milliseconds_of(value)


def seconds_of(option: str, value: float | timedelta, shortest: float = 0) -> float:
    """Return a duration in seconds, or raise `InvalidOption`."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidOption(option, f"must be seconds or a timedelta, got {value!r}")
    if not shortest <= seconds < 1e10:
        raise InvalidOption(option, f"must be a duration from {shortest:g} s to 300 years, got {value!r}")
    return float(seconds)
