"""Answers requests for the stacks of handlers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from rowcall.context import logger
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import StackFrame
from rowcall.operations.effects import Write
from rowcall.queue import Queue
from rowcall.store.queries.counts import ANSWER_SETTING
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes.dispatcher import Dispatcher


def answer_stack_request(
    queue: Queue, dispatcher: Dispatcher, request: str, attempts: Mapping[tuple[int, int], Attempt]
) -> None:
    """Answer a request about one of these attempts: with frames, or null if its handler has not started."""
    job_id, lease = (*request.split(":")[1:3], "", "")[:2]
    if not (job_id.isdecimal() and lease.isdecimal()):
        return  # plain SQL can write anything there
    if (attempt := attempts.get((int(job_id), int(lease)))) is not None:
        dispatcher.read_stack(attempt, partial(_write, queue, request))


def _write(queue: Queue, request: str, frames: list[StackFrame] | None) -> None:
    """Called in any thread."""
    try:
        queue.run(Write(queue.dialect.ask, ANSWER_SETTING, request, msgspec.json.encode(frames).decode()))
    except RowcallError as error:
        logger.debug("could not answer %s: %s", request, error)
