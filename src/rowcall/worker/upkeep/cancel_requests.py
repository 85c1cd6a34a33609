"""Learns which attempts are not to go on: a thread that asks only as long as something runs here."""

from __future__ import annotations

import threading

from rowcall.context import logger
from rowcall.domain.errors import RowcallError
from rowcall.domain.lifecycle import CancelRequested, Lost
from rowcall.queue.core import Core
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.loop.attempt_log import tell_ended_outside

ASK_SECONDS = 0.4
LAST_LOOK_SECONDS = 2.0


class Canceller:
    """Asks instead of being told: a notification that is lost would be a job that goes on."""

    def __init__(self, core: Core, dispatcher: Dispatcher) -> None:
        self._core = core
        self._dispatcher = dispatcher
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._ask, name="rowcall-canceller", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._dispatcher.anything.set()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join(LAST_LOOK_SECONDS)

    def _ask(self) -> None:
        anything = self._dispatcher.anything
        while anything.wait() and not self._stopped.wait(ASK_SECONDS):
            anything.clear()  # first: what is accepted from now on sets it again
            if not self._dispatcher.busy:
                continue
            anything.set()
            try:
                self.check()
            except RowcallError as error:  # the loop says what ails the database
                logger.debug("could not check for attempts that are not to go on: %s", error)
            except Exception:
                logger.exception("checking for attempts that are not to go on failed because of an error of its own")

    def check(self) -> None:
        """Check once. Cancel the handlers whose jobs have a cancel request, and those whose attempts are no longer
        current: somebody else has completed, recovered, retried or deleted the job.
        """
        runs = {(run.ready.id, run.ready.lease): run for run in self._dispatcher.held() if not run.settled}
        if not runs:
            return
        for one in self._core.read(self._core.dialect.interrupted(list(runs))):
            run = runs[one.id, one.lease]
            if run.settled:
                continue  # by its own end, between the two looks
            if one.is_current:
                self._dispatcher.cancel(run, CancelRequested(one.reason))
            elif not run.completed and not isinstance(run.stopped_because, Lost):
                tell_ended_outside(run)
                self._dispatcher.cancel(run, Lost())
