"""Finds attempts that must stop, and requests for stacks. It queries the database only while something runs here."""

from __future__ import annotations

from rowcall.domain.outcome import CancelRequested, Lost
from rowcall.operations.effects import Read
from rowcall.queue import Queue
from rowcall.store.queries.control import INTERRUPTED, LIMIT_CHANGED, STACK_REQUEST
from rowcall.worker.attempt_log import log_ended_outside
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.output import JobLogWriter
from rowcall.worker.pace import CANCEL_CHECK_SECONDS
from rowcall.worker.service import Background
from rowcall.worker.upkeep.blocked_loop import BlockedLoop
from rowcall.worker.upkeep.changed_limits import ChangedLimits
from rowcall.worker.upkeep.stack_requests import answer_stack_request


class CancelRequests:
    """Polls, because a lost notification would mean a handler that never stops."""

    def __init__(self, queue: Queue, dispatcher: Dispatcher) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._changed_limits = ChangedLimits(queue, dispatcher)
        self._job_logs = JobLogWriter(queue)
        self._blocked_loop = BlockedLoop(queue.clock, dispatcher)

    def run(self, thread: Background) -> None:
        any_accepted = self._dispatcher.any_accepted
        while any_accepted.wait() and self._pause(thread):
            any_accepted.clear()  # first: what is accepted from now on sets it again
            if self._dispatcher.busy:
                any_accepted.set()
                thread.attempt(self.check)

    def _pause(self, thread: Background) -> bool:
        """Wait for the next check, and watch the event loop until then. Return whether to continue."""
        timer = self._queue.clock.timer
        until = timer() + CANCEL_CHECK_SECONDS
        while (remaining := until - timer()) > 0:
            if not thread.pause(min(self._blocked_loop.pause_seconds, remaining)):
                return False
            thread.attempt(self._blocked_loop.look)
        return not thread.stopping()

    def check(self) -> None:
        """Check once. Cancel the handlers whose jobs have a cancel request, and those whose attempts are no longer
        current: the job was completed, recovered, retried or deleted from outside.
        """
        attempts = {
            (attempt.ready.id, attempt.ready.lease): attempt
            for attempt in self._dispatcher.held()
            if not attempt.settled
        }
        if not attempts:
            return
        self._job_logs.write(attempts.values())
        fences = [attempt.ready.fence for attempt in attempts.values()]
        requests: set[str] = set()
        for interrupted in self._queue.run(Read(self._queue.dialect.ask(INTERRUPTED, fences))):
            if interrupted.request is not None:
                requests.add(interrupted.request)
                continue
            attempt = attempts[interrupted.id, interrupted.lease]
            if attempt.settled:
                continue  # it has ended since
            if interrupted.is_current:
                self._dispatcher.cancel(attempt, CancelRequested(interrupted.reason))
            elif not attempt.completed and not isinstance(attempt.stopped_because, Lost):
                log_ended_outside(attempt)
                self._dispatcher.cancel(attempt, Lost())
        for request in requests:
            if request.startswith(STACK_REQUEST):
                answer_stack_request(self._queue, self._dispatcher, request, attempts)
        self._changed_limits.note({one for one in requests if one.startswith(LIMIT_CHANGED)})
