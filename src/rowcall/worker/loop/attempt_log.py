"""What the log says about attempts that did not simply succeed."""

from __future__ import annotations

import logging

import msgspec

from rowcall.base.text import one_line
from rowcall.context import logger
from rowcall.domain.lifecycle import CANCELLED_BY_HAND_CODE, Move, Transition
from rowcall.worker.attempt import Run


def tell(run: Run) -> None:
    """A line for an attempt that failed, with the job's fields on the record."""
    transition = run.transition
    if transition is None:
        return
    ready = run.ready
    match transition.move:
        case Move.RETRY:
            after = f"the next one comes in {transition.delay_seconds:g} s"
            _log(run, logging.WARNING, f"attempt {ready.attempt} of {ready.max_attempts} failed, {after}", transition)
        case Move.FAIL:
            _log(run, logging.ERROR, f"failed for good at attempt {ready.attempt} of {ready.max_attempts}", transition)
        case Move.RELEASE if transition.hold_seconds is not None:
            waits = f"it waits up to {transition.hold_seconds:g} s for a worker that its arguments fit"
            _log(run, logging.WARNING, f"does not fit this worker's version of the task; {waits}", transition)
        case Move.CANCEL:
            by = "by hand" if transition.error_code == CANCELLED_BY_HAND_CODE else "by its handler"
            _log(run, logging.INFO, f"was cancelled {by}", transition)
        case Move.RELEASE if (failure := run.failed_while_stopping) is not None:
            said = msgspec.structs.replace(transition, error_code=failure.code, error_detail=failure.detail)
            _log(run, logging.WARNING, "failed after it was told to stop; released", said)


def tell_ended_outside(run: Run) -> None:
    _log(run, logging.WARNING, "its attempt was ended from outside; its handler is told to stop", None)


def tell_abandoned(run: Run) -> None:
    what = "its handler goes on past its timeout, and keeps its slots in the worker and under limits until it ends"
    for member in run.members or (run,):
        _log(member, logging.WARNING, what, None)


def tell_dropped(run: Run) -> None:
    _log(run, logging.WARNING, "this attempt was given to somebody else meanwhile; its outcome is dropped", None)


def tell_completed(run: Run) -> None:
    """A line for a handler that ended badly after it had completed its job for good."""
    if run.transition is not None and not run.ended_completed:
        _log(run, logging.WARNING, "completed by its handler, which failed afterwards", run.transition)


def tell_left_open(run: Run) -> None:
    what = "its row is locked by somebody else's transaction, so what came of it cannot be written yet"
    if run.completed:
        what = "its handler returned and left the transaction open in which it completed the job"
    _log(run, logging.WARNING, what, None)


def _log(run: Run, level: int, what: str, transition: Transition | None) -> None:
    ready = run.ready
    reason = ""
    if transition is not None and transition.error_code:
        detail = f": {transition.error_detail}" if transition.error_detail else ""
        reason = one_line(f" ({transition.error_code}{detail})")
    logger.log(
        level,
        "job %d (%s): %s%s",
        ready.id,
        one_line(ready.type),
        what,
        reason,
        extra={**run.log_fields, "error_code": transition.error_code if transition is not None else None},
    )
