"""Writes of many threads and tasks of one process share commits: the thread that has the lock commits for all."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

import msgspec

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.errors import Conflict, DataRefused, StoreUnavailable

M = TypeVar("M")
T = TypeVar("T")

MOST_MEMBERS = 500
_UNSURE = "It is unknown whether the last write was committed: it may have been written"


class NothingWritten(StoreUnavailable):
    """The connection was lost before anything of the transaction could have been committed."""


class OutcomeUnknown(StoreUnavailable):
    """The connection was lost, or the disk failed, during a commit, which may have been done."""

    def __init__(self, problem: str, advice: str = _UNSURE) -> None:
        super().__init__(problem, advice)


class Submission(msgspec.Struct, Generic[M, T], eq=False):
    """One member of a group, and its result or error."""

    member: M
    future: asyncio.Future[T] | None
    done: bool = False
    result: T | None = None
    error: BaseException | None = None


class GroupCommit(Generic[M, T]):
    """`write` writes members in one transaction, and returns a result or an error for each. If nothing of several was
    written, each member is written alone, as long as the database does not fail to answer for some `seconds`.
    """

    def __init__(
        self,
        lock: threading.Lock,
        write: Callable[[list[M]], Sequence[T | Exception]],
        executor: Callable[[], Executor],
        seconds: float,
    ) -> None:
        self._lock = lock
        self._write = write
        self._executor = executor
        self._seconds = seconds
        self._waiting: deque[Submission[M, T]] = deque()
        self._flush_asked = False

    def submit(self, member: M) -> T:
        submission: Submission[M, T] = Submission(member, None)
        self._waiting.append(submission)
        while not submission.done:
            with self._lock:
                if not submission.done:
                    self._commit_some()
        if submission.error is not None:
            raise submission.error
        return submission.result  # type: ignore[return-value]

    def asubmit(self, member: M) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(Submission(member, future))
        if not self._flush_asked:
            self._flush_asked = True
            try:
                self._executor().submit(self._flush)
            except BaseException:
                self._flush_asked = False
                raise
        return future

    def _flush(self) -> None:
        self._flush_asked = False
        while self._waiting:
            with self._lock:
                self._commit_some()

    def _commit_some(self) -> None:
        waiting = self._waiting
        submissions: list[Submission[M, T]] = []
        try:
            while waiting and len(submissions) < MOST_MEMBERS:
                submissions.append(waiting.popleft())
            if submissions:
                self._commit(submissions)
        except BaseException as error:
            ours = isinstance(error, Exception)
            for submission in submissions:
                if not submission.done:
                    submission.error, submission.done = error if ours else _interrupted(), True
            if not ours:
                raise
        finally:
            _resolve(submissions)

    def _commit(self, submissions: list[Submission[M, T]]) -> None:
        deadline = SYSTEM_CLOCK.timer() + self._seconds
        try:
            answers = self._write([submission.member for submission in submissions])
        except OutcomeUnknown:
            raise
        except Exception as error:  # one bad member must not fail the others
            if len(submissions) == 1 or (is_about_all(error) and SYSTEM_CLOCK.timer() > deadline):
                raise
            self._commit_each(submissions)
            return
        for submission, answer in zip(submissions, answers, strict=True):
            if isinstance(answer, Exception):
                submission.error = answer
            else:
                submission.result = answer
            submission.done = True

    def _commit_each(self, submissions: list[Submission[M, T]]) -> None:
        deadline = SYSTEM_CLOCK.timer() + self._seconds
        for submission in submissions:
            try:
                self._commit([submission])
            except Exception as error:
                submission.error, submission.done = error, True
            if isinstance(submission.error, StoreUnavailable) and SYSTEM_CLOCK.timer() > deadline:
                raise StoreUnavailable(submission.error.problem, "Nothing was written") from submission.error


def is_about_all(error: Exception) -> bool:
    """Return whether the database was probably out of reach or locked, whatever the members are."""
    return isinstance(error, StoreUnavailable) and not isinstance(error, DataRefused | Conflict | NothingWritten)


def _interrupted() -> StoreUnavailable:
    """Return the error for the others of a group whose thread was interrupted, by Ctrl-C for example."""
    return StoreUnavailable(
        "the thread that wrote for this one was interrupted", "It is unknown whether the job was written"
    )


def _resolve(submissions: list[Submission[M, T]]) -> None:
    if len(submissions) == 1 and submissions[0].future is None:
        return
    by_loop: dict[asyncio.AbstractEventLoop, list[Submission[M, T]]] = defaultdict(list)
    for submission in submissions:
        if submission.future is not None:
            by_loop[submission.future.get_loop()].append(submission)
    for loop, members in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed, so that no task waits there
            loop.call_soon_threadsafe(_set_results, members)


def _set_results(submissions: list[Submission[M, T]]) -> None:
    for submission in submissions:
        if submission.future is None or submission.future.done():
            continue  # cancelled: the job may have been written
        if submission.error is not None:
            submission.future.set_exception(submission.error)
        else:
            submission.future.set_result(submission.result)  # type: ignore[arg-type]
