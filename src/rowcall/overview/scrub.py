"""What is shown of jobs: by the scrubber of their app, if it has one."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rowcall.declare.failures import SCRUBBING_FAILED, Failures
from rowcall.domain.job import Attempt, ErrorGroup, Event, Job, Schedule
from rowcall.domain.payload import RAW_KEY

J = TypeVar("J", bound=Job)


def scrubbed_job(failures: Failures, job: J) -> J:
    if not failures.scrubs:
        return job
    payload = _value(failures, job.payload)
    return msgspec.structs.replace(
        job,
        payload=payload if isinstance(payload, dict) else {RAW_KEY: payload},
        result=_value(failures, job.result),
        progress_message=_text(failures, job.progress_message),
        error_detail=_text(failures, job.error_detail),
        key=_text(failures, job.key),
        tags=tuple(map(failures.scrub, job.tags)),
    )


def scrubbed_errors(failures: Failures, group: ErrorGroup) -> ErrorGroup:
    return msgspec.structs.replace(group, sample=_text(failures, group.sample)) if failures.scrubs else group


def scrubbed_attempt(failures: Failures, attempt: Attempt) -> Attempt:
    if not failures.scrubs:
        return attempt
    return msgspec.structs.replace(
        attempt,
        error_detail=_text(failures, attempt.error_detail),
        traceback=_text(failures, attempt.traceback),
    )


def scrubbed_event(failures: Failures, event: Event) -> Event:
    return msgspec.structs.replace(event, detail=_text(failures, event.detail)) if failures.scrubs else event


def scrubbed_schedule(failures: Failures, schedule: Schedule) -> Schedule:
    if not failures.scrubs:
        return schedule
    arguments = _value(failures, schedule.arguments)
    return msgspec.structs.replace(
        schedule,
        arguments=arguments if isinstance(arguments, dict) else {RAW_KEY: arguments},
        problem=_text(failures, schedule.problem),
    )


def _text(failures: Failures, text: str | None) -> str | None:
    return None if text is None else failures.scrub(text)


def _value(failures: Failures, value: object) -> object:
    """Each text in it as it is, for what spans lines or holds quotes; then all as JSON, for what its name gives away.

    What is no JSON any more is shown as the text that it has become.
    """
    if value is None:
        return None
    try:
        encoded = failures.scrub(msgspec.json.encode(_leaves(failures, value)).decode())
    except RecursionError:
        return SCRUBBING_FAILED
    try:
        decoded: object = msgspec.json.decode(encoded)
    except msgspec.DecodeError:
        return encoded
    return decoded


def _leaves(failures: Failures, value: object) -> object:
    match value:
        case str():
            return failures.scrub(value)
        case dict():
            return {name: _leaves(failures, inner) for name, inner in value.items()}
        case list():
            return [_leaves(failures, inner) for inner in value]
        case _:
            return value
