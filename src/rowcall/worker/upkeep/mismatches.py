"""Finds jobs whose arguments did not fit another worker, and that fit this one; and jobs of unknown tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowcall.base.text import duration
from rowcall.context import logger
from rowcall.declare.declaration import Lane
from rowcall.domain.encryption import is_hidden
from rowcall.domain.job import is_paused
from rowcall.domain.payload import PayloadUnfit
from rowcall.operations.effects import Read, Write
from rowcall.overview.formats import counted
from rowcall.queue import Queue
from rowcall.store.ends.waiting import FAILED_AT_ONCE, fail_overdue, fail_unknown, known_tasks
from rowcall.store.queries.claims import EXTEND_MISMATCHED, FIND_WORK, MISMATCHED, Mismatch, Work
from rowcall.worker.service import Stopping, never
from rowcall.worker.settings import Settings

PAGE = 500
PAUSE_SECONDS, LARGEST_SHARE = 1.0, 0.05
UNKNOWN_PAUSE_SECONDS, LONGEST_GAP_SECONDS = 5.0, 60.0
BATCHES_AT_ONCE = 4
MOST_REMEMBERED = 10_000


class Mismatches:
    """Reads all of them in the recovery thread, and offers the ones that fit to the loop, which claims them.

    A job waits as long as there is a worker that it fits: each check by such a worker extends its time.
    """

    def __init__(
        self,
        queue: Queue,
        settings: Settings,
        refused: set[int],
        offer: Callable[[Sequence[int]], None],
        unknown: UnknownTasks | None = None,
    ) -> None:
        self._queue = queue
        self._queues = settings.queues
        self._refused = refused
        self._offer = offer
        self.unknown = unknown
        self._seen_refused: set[int] = set()
        self._next_at = 0.0
        self.expected = False
        """Whether to check soon: there were some, or a notification came."""

    def check(self, stopping: Stopping = never, *, any_held: bool = True) -> None:
        """Check once, unless the last check was a moment ago. `any_held`: whether there may be any."""
        monotonic = self._queue.clock.monotonic
        began_at = monotonic()
        if began_at < self._next_at:
            return
        self._check(stopping, any_held)
        if self.unknown is not None:
            self.unknown.check(stopping)
        now = monotonic()
        self._next_at = now + max(PAUSE_SECONDS, (now - began_at) / LARGEST_SHARE)

    def _check(self, stopping: Stopping, any_held: bool) -> None:
        queue = self._queue
        extension_ms = round(1000 * queue.config.unknown_task_seconds)
        seen: set[int] = set()
        fitting: list[tuple[int, int, int]] = []
        late: list[int] = []
        overdue: list[int] = []
        after, more = 0, any_held
        while more:
            if stopping():
                return
            ((now_ms, jobs),) = queue.run(Read(queue.dialect.ask(MISMATCHED, queue.now_ms(), after, PAGE)))
            for job in jobs:
                seen.add(job.id)
                if self._fits(job):
                    fitting.append((-job.priority, job.turn, job.id))
                    if job.until_ms - now_ms < extension_ms / 2:
                        late.append(job.id)
                elif job.until_ms <= now_ms:
                    overdue.append(job.id)
            after, more = (jobs[-1].id, True) if len(jobs) == PAGE else (0, False)
        self._drop_gone(seen)
        self.expected = bool(seen)
        for ids in _pages(late):
            queue.run(Write(queue.dialect.ask, EXTEND_MISMATCHED, queue.now_ms(), ids, extension_ms))
        if fitting:
            self._offer([job_id for _, _, job_id in sorted(fitting)])
        failed = sum(queue.run(Write(fail_overdue, queue.dialect, ids, queue.now_ms())) for ids in _pages(overdue))
        if failed:
            reason = "no worker whose version of the task they fit claimed them in time"
            logger.error("failed %s: %s", counted(failed, "job"), reason)

    def _drop_gone(self, seen: set[int]) -> None:
        """Drop only jobs that were seen before: a refusal of this moment may not be committed yet."""
        self._refused -= self._seen_refused - seen
        if len(self._refused) > MOST_REMEMBERED:
            self._refused &= seen
        self._seen_refused = self._refused & seen

    def _fits(self, job: Mismatch) -> bool:
        task = self._queue.declared.tasks.get(job.type)
        if task is None or job.id in self._refused or (self._queues is not None and job.queue not in self._queues):
            return False
        if task.lane is Lane.PROCESS or is_hidden(job.payload):
            return True  # only an attempt can show it: the child has its own code, or the row hides the payload
        try:
            task.arguments.from_json(job.payload)
        except PayloadUnfit:
            return False
        except Exception:  # raised by a class of the app: an attempt reports it
            return True
        return True


class UnknownTasks:
    """Jobs of tasks that this worker does not know: other workers may, and no job is claimed to find out.

    They fail when this worker has seen for `mismatch_grace` that no worker of their queue knows their task.
    """

    def __init__(self, queue: Queue, settings: Settings) -> None:
        self._queue = queue
        self._queues = settings.queues
        self._seen: set[tuple[str, str]] = set()
        self._warned: set[str] = set()
        self._since: dict[tuple[str, str], float] = {}
        self._checked_at = -LONGEST_GAP_SECONDS

    def note(self, work: Work) -> None:
        """Called by the loop with what it has read."""
        self._seen = self._unknown_in(work)
        for name, task in self._seen:
            if task not in self._warned:
                self._warned.add(task)
                logger.warning(
                    "queue %r has jobs of the task %r, which this worker does not know: left for workers that do;"
                    " without one, they fail after %s",
                    name,
                    task,
                    duration(self._queue.config.unknown_task_seconds),
                )

    def _unknown_in(self, work: Work) -> set[tuple[str, str]]:
        return {
            (name, task)
            for name, task in work.ready
            if task not in self._queue.declared.tasks
            and (self._queues is None or name in self._queues)
            and not is_paused(name, task, work.paused)
        }

    def check(self, stopping: Stopping = never) -> None:
        """Check once, unless the last check was a moment ago. Runs no statement if all tasks are known."""
        queue, now = self._queue, self._queue.clock.monotonic()
        if not self._seen or now - self._checked_at > LONGEST_GAP_SECONDS:
            self._since = {}  # this process was stopped, or the database out of reach: others may have been, too
        if not self._seen or now - self._checked_at < UNKNOWN_PAUSE_SECONDS:
            return
        self._checked_at = now
        known = queue.run(Read(known_tasks(queue.dialect, self._seen)))
        self._since = {pair: self._since.get(pair, now) for pair in self._seen - known}
        grace_seconds = queue.config.unknown_task_seconds
        if any(now - since >= grace_seconds for since in self._since.values()):
            (work,) = queue.run(Read(queue.dialect.ask(FIND_WORK, queue.now_ms(), "")))
            for pair in self._unknown_in(work):
                if now - self._since.get(pair, now) >= grace_seconds:
                    self._fail(*pair, grace_seconds, stopping)

    def _fail(self, name: str, task: str, seconds: float, stopping: Stopping) -> None:
        """Fail a few batches: the thread of this check has lost workers to find, too."""
        queue, total = self._queue, 0
        detail = (
            f"no worker has known the task {task!r} for {duration(seconds)}; start a worker that knows it, then retry"
        )
        for _ in range(BATCHES_AT_ONCE):
            if stopping():
                break
            due_ms, now_ms = round(seconds * 1000), queue.now_ms()
            on_end = queue.declared.follow_ups.on_end_of(task, name)
            failed = queue.run(Write(fail_unknown, queue.dialect, name, task, due_ms, detail, now_ms, on_end))
            total += failed
            if failed < FAILED_AT_ONCE:
                break
        if total:
            logger.error("failed %s in queue %r: %s", counted(total, "job"), name, detail)


def _pages(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + PAGE] for start in range(0, len(ids), PAGE)]
