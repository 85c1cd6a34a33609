"""Answers requests for the stacks of handlers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rowcall.context import logger
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import StackFrame
from rowcall.operations.effects import Write
from rowcall.queue import Queue
from rowcall.store.queries.counts import ANSWER_SETTING
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes.dispatcher import Dispatcher


class StackRequests:
    def __init__(self, queue: Queue, dispatcher: Dispatcher) -> None:
        self._queue = queue
        self._dispatcher = dispatcher

    def answer(self, request: str, attempts: Mapping[tuple[int, int], Attempt]) -> None:
        """Answer a request about one of these attempts: with frames, or null if its handler has not started."""
        job_id, lease = (*request.split(":")[1:3], "", "")[:2]
        if not (job_id.isdecimal() and lease.isdecimal()):
            return  # plain SQL can write anything there
        if (attempt := attempts.get((int(job_id), int(lease)))) is not None:
            self._dispatcher.read_stack(attempt, lambda frames: self._write(request, frames))

    def _write(self, request: str, frames: list[StackFrame] | None) -> None:
        """Called in any thread."""
        queue = self._queue
        try:
            queue.run(Write(queue.dialect.ask, ANSWER_SETTING, request, msgspec.json.encode(frames).decode()))
        except RowcallError as error:
            logger.debug("could not answer %s: %s", request, error)
