"""Every error Rowcall raises on purpose.

RowcallError
├── InvalidArguments (TypeError)      a call that does not fit the task's signature, or what JSON cannot hold
│   └── TooLarge                      arguments or a result above `payload_limit`
├── InvalidOption (ValueError)        an option that is unknown, out of range or not possible here
│   └── InvalidCode                   an error code that is none; raised in a handler, it ends the job all the same
├── UnknownTask (LookupError)         no task of that name is declared here
├── DuplicateTask (ValueError)        two tasks of one name
├── DuplicateJob                      a job with that key exists
├── JobNotFound (LookupError)         no job with that id
│   └── ChainNotFound                 no chain that began with that job
├── ScheduleNotFound (LookupError)    no schedule of that name
├── JobFailed                         the job whose result was asked for has failed
├── JobCancelled                      the job whose result was asked for was cancelled
├── LeaseLost                         the attempt belongs to somebody else by now
├── WrongState                        the job's state does not allow that
├── StillNeeded                       other jobs wait for it, or for the chain
├── SchemaMismatch                    the tables are missing, or of another version than this code
├── BlobUnreadable                    a large payload or result cannot be read back
│   ├── BlobMissing                   the blob store does not have it
│   └── BlobDamaged                   the blob store returned other bytes
└── StoreUnavailable                  the database cannot be opened, read or written now
    ├── Conflict                      somebody else was at the same rows; nothing was written
    ├── FileReplaced                  the file was deleted or replaced while it was open
    └── DataRefused                   it is there, and refuses the values
        └── StepTaken                 a chain has that step already

Control                               raised by handlers, to say how an attempt ends
├── Retry · Snooze · Fail · Cancel
"""

from __future__ import annotations

from datetime import timedelta

from rowcall.base.text import DETAIL_LENGTH, code_complaint, storable


class RowcallError(Exception):
    """The root of all errors of this package."""


class InvalidArguments(RowcallError, TypeError):
    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"{task}: {problem}")
        self.task = task
        self.problem = problem


class InvalidOption(RowcallError, ValueError):
    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem


class TooLarge(InvalidArguments):
    """The arguments or the result are above `payload_limit`."""


class UnknownTask(RowcallError, LookupError):
    def __init__(self, task: str, known: list[str]) -> None:
        names = ", ".join(known) or "none"
        super().__init__(f"no task named {task!r} is declared here (declared: {names})")
        self.task = task
        self.known = known


class DuplicateTask(RowcallError, ValueError):
    def __init__(self, task: str) -> None:
        super().__init__(f"a task named {task!r} is already declared; give one of them another name with task(name=…)")
        self.task = task


class DuplicateJob(RowcallError):
    def __init__(self, task: str, key: str, job_id: int) -> None:
        super().__init__(f"{task}: job {job_id} already has the key {key!r}")
        self.task = task
        self.key = key
        self.job_id = job_id


class JobNotFound(RowcallError, LookupError):
    def __init__(self, job_id: int) -> None:
        super().__init__(f"there is no job {job_id}")
        self.job_id = job_id


class ScheduleNotFound(RowcallError, LookupError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}")
        self.name = name


class ChainNotFound(JobNotFound):
    def __init__(self, chain_id: int) -> None:
        super().__init__(chain_id)
        self.args = (f"there is no chain {chain_id}: its id is that of its first step",)


class JobFailed(RowcallError):
    def __init__(self, job_id: int, error_code: str, error_detail: str | None) -> None:
        super().__init__(f"job {job_id} failed with {error_code}" + (f": {error_detail}" if error_detail else ""))
        self.job_id = job_id
        self.error_code = error_code
        self.error_detail = error_detail


class JobCancelled(RowcallError):
    def __init__(self, job_id: int, reason: str | None) -> None:
        super().__init__(f"job {job_id} was cancelled" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.reason = reason


class LeaseLost(RowcallError):
    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"this attempt of job {job_id} is no longer yours: it was settled, released or recovered meanwhile"
        )
        self.job_id = job_id


class WrongState(RowcallError):
    def __init__(self, job_id: int, status: str, move: str, allowed: list[str], problem: str = "") -> None:
        """`problem` is what is in the way where it is not the state alone."""
        said = problem or f"it is {status}, and must be {' or '.join(allowed)}"
        super().__init__(f"cannot {move} job {job_id}: {said}")
        self.job_id = job_id
        self.status = status
        self.move = move
        self.allowed = allowed
        self.problem = problem


class StillNeeded(RowcallError):
    def __init__(self, job_id: int, needed_by: list[int]) -> None:
        some = ", ".join(map(str, needed_by[:5])) + (", …" if len(needed_by) > 5 else "")
        super().__init__(f"cannot delete job {job_id}: {len(needed_by)} others wait for it ({some})")
        self.job_id = job_id
        self.needed_by = needed_by


MISSING_ADVICE = "run: rowcall migrate APP; if it finds the tables up to date, restore what is missing from a backup"


class SchemaMismatch(RowcallError):
    def __init__(self, found: int, wanted: int, advice: str, problem: str = "") -> None:
        """`problem` is what is wrong where it is not the version."""
        said = problem or f"the tables are at version {found}, this code needs {wanted}"
        super().__init__(f"{said}: {advice}")
        self.found = found
        self.wanted = wanted


class StoreUnavailable(RowcallError):
    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"{problem}. {advice}" if advice else problem)
        self.problem = problem
        self.advice = advice


class Conflict(StoreUnavailable):
    """A deadlock, a serialization failure or a lock that was not had in time: the same call may well succeed now."""


class FileReplaced(StoreUnavailable):
    """The file was deleted, or another put in its place: what was held of it is nobody's any more."""


class DataRefused(StoreUnavailable):
    """The database is well, and does not take these values: too large, or against a rule of its tables."""

    error_code = "INVALID_OUTPUT:NOT_STORABLE"


class StepTaken(DataRefused):
    """The chain has that step already, so that nothing can go on from here."""

    error_code = "CHAIN:STEP_TAKEN"


class BlobUnreadable(RowcallError):
    """A large payload or result cannot be read back. It may come back, so the attempt is retried."""


class BlobMissing(BlobUnreadable):
    """The blob store does not have it."""


class BlobDamaged(BlobUnreadable):
    """The blob store returned other bytes than were put there."""


class Control(Exception):
    """Raised inside a handler to end the attempt in a chosen way; not an error of Rowcall's."""

    said: str = ""  # uncut


class InvalidCode(InvalidOption, Control):
    """`Fail` with a code that is none. A handler that wanted to give up has given up: a typing error is not retried."""


class Retry(Control):
    """Try again after `delay`; this attempt is used up.

    >>> raise Retry(delay=5)
    Traceback (most recent call last):
    rowcall.Retry: retry in 5 s
    """

    def __init__(self, delay: float | timedelta = 0.0, reason: str = "") -> None:
        self.delay_seconds = seconds_of("delay", delay)
        self.said = reason
        self.reason = storable(reason, DETAIL_LENGTH)
        super().__init__(reason or f"retry in {self.delay_seconds:g} s")


class Snooze(Control):
    """Go on later, without using up an attempt."""

    def __init__(self, delay: float | timedelta) -> None:
        self.delay_seconds = seconds_of("delay", delay)
        super().__init__(f"snooze for {self.delay_seconds:g} s")


class Fail(Control):
    """Give up at once, whatever attempts are left. `InvalidCode` for a code with other signs in it."""

    def __init__(self, code: str, detail: str = "") -> None:
        if complaint := code_complaint(code):
            raise InvalidCode("code", complaint)
        self.code = code
        self.said = detail
        self.detail = storable(detail, DETAIL_LENGTH)
        super().__init__(f"{code}: {detail}" if detail else code)


class Cancel(Control):
    """End the job as `cancelled`."""

    def __init__(self, reason: str = "") -> None:
        self.said = reason
        self.reason = storable(reason, DETAIL_LENGTH)
        super().__init__(reason or "cancelled by its handler")


def seconds_of(option: str, value: float | timedelta, shortest: float = 0) -> float:
    """A duration given as seconds or `timedelta`, refused when too short or not a number."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidOption(option, f"wants seconds or a timedelta, not {type(value).__name__}")
    if not shortest <= seconds < 1e10:
        raise InvalidOption(option, f"wants a duration from {shortest:g} s up to 300 years, not {value!r}")
    return float(seconds)
