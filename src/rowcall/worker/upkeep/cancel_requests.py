"""Finds the attempts that must not go on. It asks the database only while something runs here."""

from __future__ import annotations

from rowcall.domain.lifecycle import CancelRequested, Lost
from rowcall.queue import Queue
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.loop.attempt_log import tell_ended_outside
from rowcall.worker.service import Background

CHECK_SECONDS = 0.4


class CancelRequests:
    """Polls, because a lost notification would mean a job that goes on."""

    def __init__(self, core: Queue, dispatcher: Dispatcher) -> None:
        self._core = core
        self._dispatcher = dispatcher

    def run(self, thread: Background) -> None:
        anything = self._dispatcher.anything
        while anything.wait() and thread.pause(CHECK_SECONDS):
            anything.clear()  # first: what is accepted from now on sets it again
            if self._dispatcher.busy:
                anything.set()
                thread.attempt(self.check)

    def check(self) -> None:
        """Check once. Cancel the handlers whose jobs have a cancel request, and those whose attempts are no longer
        current: the job was completed, recovered, retried or deleted from outside.
        """
        runs = {(run.ready.id, run.ready.lease): run for run in self._dispatcher.held() if not run.settled}
        if not runs:
            return
        for one in self._core.read(self._core.dialect.interrupted(list(runs))):
            run = runs[one.id, one.lease]
            if run.settled:
                continue  # it has ended since
            if one.is_current:
                self._dispatcher.cancel(run, CancelRequested(one.reason))
            elif not run.completed and not isinstance(run.stopped_because, Lost):
                tell_ended_outside(run)
                self._dispatcher.cancel(run, Lost())
