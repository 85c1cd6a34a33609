"""Learns what was asked to end while it runs here: a thread that asks only as long as something does."""

from __future__ import annotations

import threading

from rowcall.context import logger
from rowcall.errors import RowcallError
from rowcall.lifecycle import CancelRequested
from rowcall.queue.core import Core
from rowcall.worker.dispatcher import Dispatcher

ASK_SECONDS = 0.4
LAST_LOOK_SECONDS = 2.0


class Canceller:
    """Asks instead of being told: a notification that is lost would be a job that goes on."""

    def __init__(self, core: Core, dispatcher: Dispatcher) -> None:
        self._core = core
        self._dispatcher = dispatcher
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.worker = ""

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
                logger.debug("no answer to whether anything is to be cancelled: %s", error)
            except Exception:
                logger.exception("looking for cancellations failed because of an error of its own")

    def check(self) -> None:
        """Look once, and ask the handlers to end of whose jobs that was asked."""
        asked = self._core.read(self._core.dialect.cancelling(self.worker))
        if not asked:
            return
        reasons = {(one.id, one.lease): one.reason for one in asked}
        for run in self._dispatcher.held():
            attempt = (run.ready.id, run.ready.lease)
            if attempt in reasons and not run.settled:
                self._dispatcher.cancel(run, CancelRequested(reasons[attempt]))
