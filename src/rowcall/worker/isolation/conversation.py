"""What a worker and a child process say to each other about one attempt, as the worker sees it."""

from __future__ import annotations

from asyncio import CancelledError

import msgspec

from rowcall.context import logger
from rowcall.declare.isolation import home_of
from rowcall.domain.outcome import Raised, Reported, Unfit
from rowcall.domain.payload import payload_from_row
from rowcall.operations.enqueue import Bound
from rowcall.store.new_job import NewJob
from rowcall.worker.attempt import Attempt
from rowcall.worker.isolation.child_process import ChildProcess
from rowcall.worker.isolation.exceptions import described, rebuilt
from rowcall.worker.isolation.messages import (
    AboutAttempt,
    Answered,
    Asked,
    Begun,
    Call,
    Failed,
    Logged,
    NotCompleted,
    Progressed,
    Returned,
    ToWorker,
    Unfitting,
)


def run_in(child: ChildProcess, attempt: Attempt) -> bool:
    """Run the attempt. Return false if the child died before the attempt began, so that another one can run it."""
    child.send(_call_of(attempt))
    has_begun = False
    for message in child.messages():
        if isinstance(message, AboutAttempt) and message.attempt != attempt.fence:
            continue
        if isinstance(message, Begun):
            has_begun = True
        elif _is_last(message, attempt, child):
            return True
    if attempt.stopped_because is not None:
        raise CancelledError
    if has_begun:
        attempt.fail(Reported(*child.ending().outcome(attempt.task.options.memory_limit)))
    else:
        child.kill()  # it has closed its socket: do not wait until it is reaped to see that
    return has_begun


def _is_last(message: ToWorker, attempt: Attempt, child: ChildProcess) -> bool:
    """Act on a message. Return whether it is the last one about this attempt."""
    match message:
        case Progressed(share=share, message=text):
            attempt.report(share, text)
        case Asked() as asked:
            child.send(_answer(attempt, asked))
        case NotCompleted():
            attempt.completed = False
        case Returned(result=result, saw_cancelled=saw_cancelled):
            attempt.saw_cancelled = attempt.saw_cancelled or saw_cancelled
            attempt.succeed(None if result is None else msgspec.Raw(result.encode()))
            return True
        case Unfitting(code=code, detail=detail):
            attempt.fail(Unfit(code, attempt.task.failures.detail(detail)))
            return True
        case Failed() as failed:
            if failed.out_of_memory:
                child.terminate()  # it may never release the memory that it holds
            attempt.fail(_raised(attempt, failed))
            return True
        case _:
            log_message(message)
    return False


def log_message(message: ToWorker) -> None:
    if isinstance(message, Logged):
        logger.log(message.level, "%s", message.message, extra=message.fields)


def _answer(attempt: Attempt, asked: Asked) -> Answered:
    try:
        match asked:
            case Asked(what="previous"):
                return Answered(attempt.previous())
            case Asked(what="blockers"):
                return Answered(attempt.blockers())
            case Asked(what="complete"):
                attempt.completed = True
                return Answered()
            case Asked(job=None):
                attempt.continue_with(asked.task, (), payload_from_row(asked.payload))
            case Asked(job=NewJob() as job):
                attempt.continue_with(Bound(job, asked.payload), (), {})
    except Exception as error:
        return Answered(failed=described(error, attempt.task.failures, is_declared=True))
    return Answered(then=attempt.then)


def _raised(attempt: Attempt, failed: Failed) -> Raised:
    failures, error = attempt.task.failures, rebuilt(failed)
    code = None if failed.is_declared else failures.own_code(error)
    return failures.raised_in_child(error, code or failed.code, failed.detail, failed.traceback)


def _call_of(attempt: Attempt) -> Call:
    task = attempt.task
    return Call(
        task=task.name,
        home=home_of(task.function),
        ready=attempt.ready,
        worker=attempt.identity.name,
        claimed_at_ms=attempt.claimed_at_ms,
        memory_limit=task.options.memory_limit,
        log_level=logger.getEffectiveLevel(),
    )
