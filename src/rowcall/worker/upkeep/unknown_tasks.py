"""Fails jobs that no registered worker can claim: of unknown tasks, or with arguments that do not fit any version."""

from __future__ import annotations

from rowcall.base.text import duration
from rowcall.context import logger
from rowcall.declare.declaration import fingerprints
from rowcall.domain.job import is_paused
from rowcall.operations.effects import Read, Write
from rowcall.overview.formats import counted
from rowcall.queue import Queue
from rowcall.store.ends.waiting import FAILED_AT_ONCE, fail_unknown, known_keys
from rowcall.store.queries.claims import EVERY_QUEUE, FIND_WORK, Work, parts_of, takes, task_of
from rowcall.worker.pace import LONGEST_GAP_SECONDS, UNKNOWN_PAGES_AT_ONCE, UNKNOWN_PAUSE_SECONDS
from rowcall.worker.service import Stopping, never
from rowcall.worker.settings import Settings

NOT_IN_TIME = "no worker that fits claimed the job in time"


class UnknownTasks:
    """Jobs that this worker cannot claim: other workers may, and no job is claimed to find out.

    They fail when this worker has seen for `mismatch_grace` that no worker of their queue can claim them.
    """

    def __init__(self, queue: Queue, settings: Settings) -> None:
        self._queue = queue
        self._queues = settings.queues
        self._seen: set[tuple[str, str]] = set()
        self._warned: set[str] = set()
        self._since: dict[tuple[str, str], float] = {}
        self._checked_at = -LONGEST_GAP_SECONDS

    def note(self, work: Work) -> None:
        """Called by the loop with what it has read, mostly of a few queues."""
        unknown = self._unknown_in(work)
        self._seen = self._seen | unknown  # not in place: a check may read it now
        for name, key in unknown:
            task, unfit = parts_of(key)
            if task not in self._warned and not unfit:  # of a job that was refused, the log says so already
                self._warned.add(task)
                logger.warning(
                    "queue %r has jobs of the task %r, which this worker does not know: left for workers that do;"
                    " without one, they fail after %s",
                    name,
                    task,
                    duration(self._queue.config.unknown_task_seconds),
                )

    def _unknown_in(self, work: Work) -> set[tuple[str, str]]:
        tasks = fingerprints(self._queue.declared.tasks)
        return {
            (name, key)
            for name, key in work.ready
            if not takes(tasks, key)
            and (self._queues is None or name in self._queues)
            and not is_paused(name, task_of(key), work.paused)
        }

    def check(self, stopping: Stopping = never) -> None:
        """Check once, unless the last check was a moment ago. Runs no statement if this worker can claim all jobs."""
        queue, now = self._queue, self._queue.clock.monotonic()
        if not self._seen or now - self._checked_at > LONGEST_GAP_SECONDS:
            self._since = {}  # this process was stopped, or the database out of reach: others may have been, too
        if not self._seen or now - self._checked_at < UNKNOWN_PAUSE_SECONDS:
            return
        self._checked_at = now
        (work,) = queue.run(Read(queue.dialect.ask(FIND_WORK, "", *EVERY_QUEUE)))
        self._seen = self._unknown_in(work)
        known = queue.run(Read(known_keys(queue.dialect, self._seen)))
        self._since = {pair: self._since.get(pair, now) for pair in self._seen - known}
        grace_seconds = queue.config.unknown_task_seconds
        for pair, since in self._since.items():
            if now - since >= grace_seconds:
                self._fail(*pair, grace_seconds, stopping)

    def _fail(self, name: str, key: str, seconds: float, stopping: Stopping) -> None:
        """Fail a few batches: the thread of this check has lost workers to find, too."""
        queue, total = self._queue, 0
        task, unfit = parts_of(key)
        detail = (
            f"no worker has known the task {task!r} for {duration(seconds)}; start a worker that knows it, then retry"
        )
        reason = detail
        if unfit:
            detail, reason = NOT_IN_TIME, f"no worker whose version of the task {task!r} they fit claimed them in time"
        for _ in range(UNKNOWN_PAGES_AT_ONCE):
            if stopping():
                break
            due_ms = round(seconds * 1000)
            on_end = queue.declared.follow_ups.on_end_of(task, name)
            failed = queue.run(Write(fail_unknown, queue.dialect, name, key, due_ms, detail, on_end))
            total += failed
            if failed < FAILED_AT_ONCE:
                break
        if total:
            logger.error("failed %s in queue %r: %s", counted(total, "job"), name, reason)
