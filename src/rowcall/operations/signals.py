"""Signals to jobs whose handlers wait for them, and the durable steps that handlers have recorded."""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

import msgspec

from rowcall.declare.option_checks import key_problem
from rowcall.domain import checks
from rowcall.domain.blobs import reference_in
from rowcall.domain.encryption import Kind, bound_step
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.domain.payload import result_to_json
from rowcall.domain.question import choices_of, problem_of_value, wrong_signal
from rowcall.domain.step import OpenWait, OpenWaits, RecordedStep
from rowcall.operations import blobs
from rowcall.operations.arguments import checked_actor, checked_id, checked_limit
from rowcall.operations.effects import Blocking, Read, joined, write
from rowcall.operations.inspect import ALL, type_of
from rowcall.queue import Operation, Queue
from rowcall.store.queries.steps import COUNT_ASKING, OPEN_WAITS_OF
from rowcall.store.steps import recorded

LONGEST_PAGE = 200
MOST_WAITS = 100
_CURSOR = re.compile(r"after-(\d{1,15})-(\d{1,18})-(\d{1,9})")


class Meant(NamedTuple):
    """The name and the value of a signal, as its wait has them."""

    name: str
    value: object


def signal(
    queue: Queue,
    job: Job | int,
    name: str,
    value: object = None,
    *,
    key: str | None = None,
    position: int | None = None,
    actor: str | None = None,
    connection: object = None,
) -> Operation[None]:
    """Send a signal to a job whose handler waits for it with `ctx.wait_for(name)`, now or later.

        jobs.signal(job, "confirmed", {"by": "ann"})

    It is kept until the handler waits, and received once; with `key`, however often it is sent. `WrongState` if the
    job has finished. `InvalidArguments` if the handler waits already, and the value is not of its type, or not one
    of its choices. With `position`, it is for the wait at that position of the steps: `WrongState` if that has
    ended, or has an answer. With `connection`, it is part of the caller's transaction.
    """
    job_id, who = checked_id(job), checked_actor(actor)
    checks.name("name", name)
    if key is not None and (problem := key_problem(key)):
        raise InvalidOption("key", problem)
    if position is not None:
        checks.whole(1, 2**31 - 1)("position", position)
    connection = yield from joined(queue, connection)
    value_text = result_to_json(f"signal {name!r}", value, "the value is")
    task = (yield from type_of(queue, job, connection)) if queue.backend.cipher is not None else None
    text = yield from blobs.store(queue, f"signal {name!r}", value_text, Kind.STEP, task)
    make_plan = blobs.safe_on(connection, recorded.signal, text)
    check = partial(_check_fits, queue, msgspec.json.decode(value_text or "null"))
    yield from write(queue, connection, make_plan, job_id, name, text, who, position, key, check)


def _check_fits(queue: Queue, value: object, wait: OpenWait) -> None:
    """Raise `InvalidArguments` if a wait does not take a value, as far as its row says what it takes."""
    if queue.backend.cipher is not None:
        wait = queue.backend.cipher.opened(wait)
    failures = queue.declared.failures
    problem = problem_of_value(wait.question, wait.expects, value, failures.shown_choices)
    if problem is not None:
        raise wrong_signal(wait.type, *map(failures.scrub, (wait.name, problem)))


def meant(queue: Queue, job_id: int, name: str, value: object, position: int | None = None) -> Operation[Meant]:
    """Return the name and the value of a signal, from someone who may have read them scrubbed."""
    failures = queue.declared.failures
    waits = (yield from open_waits_of(queue, job_id)) if failures.scrubs else []
    for wait in sorted(waits, key=lambda wait: wait.name != name):
        if name in (wait.name, failures.scrub(wait.name)) and position in (wait.position, None):
            choices = choices_of(wait.question)
            shown = zip(failures.shown_choices(choices), choices, strict=True)
            chosen = [choice for text, choice in shown if text == value]
            return Meant(wait.name, chosen[0] if chosen and value not in choices else value)
    return Meant(name, value)


def open_waits(
    queue: Queue, *, asks: bool | None = None, limit: int = 50, cursor: str | None = None
) -> Operation[OpenWaits]:
    """Return one page of the waits for signals that have no answer, the longest first.

        for wait in jobs.open_waits().waits:
            print(wait.job_id, wait.name, wait.question)

    With `asks=True`, return only the questions for people, which have choices or a prompt; with `asks=False`, the
    others. Pass `next_cursor` as `cursor` to get the next page.
    """
    most = checked_limit(limit, LONGEST_PAGE)
    if asks is not None:
        checks.boolean("asks", asks)
    return (yield from Read(recorded.open_waits(queue.dialect, asks, _place(cursor), most)))


def open_waits_of(queue: Queue, job_id: int) -> Operation[list[OpenWait]]:
    """Return the waits of a job that have no answer."""
    return (yield from Read(queue.dialect.ask(OPEN_WAITS_OF, job_id, MOST_WAITS)))


def count_asking(queue: Queue) -> Operation[int]:
    """Return how many waits people should answer; a higher number than `MOST_WAITS` is not counted."""
    (count,) = yield from Read(queue.dialect.ask(COUNT_ASKING, MOST_WAITS))
    return count


def _place(cursor: str | None) -> tuple[int, int, int]:
    if cursor is None:
        return 0, 0, 0
    place = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if place is None:
        raise InvalidOption("cursor", f"must be the next_cursor of a page, got {cursor!r}")
    return int(place[1]), int(place[2]), int(place[3])


def step_rows(queue: Queue, job: Job | int, limit: int = ALL) -> Operation[list[RecordedStep]]:
    """Return the last steps as their rows have them: a large result is a reference."""
    return (yield from Read(recorded.show(queue.dialect, checked_id(job), limit)))


def steps(queue: Queue, job: Job | int) -> Operation[list[RecordedStep]]:
    """Return the durable steps that the handler of the job has recorded, in the order of their calls."""
    job_id = checked_id(job)
    recorded = yield from step_rows(queue, job_id)
    if not any(reference_in(step.result) is not None for step in recorded):
        return recorded
    return (yield from Blocking(with_results, queue, job_id, recorded))


def with_results(queue: Queue, job_id: int, recorded: list[RecordedStep]) -> list[RecordedStep]:
    """Return steps with their large results."""
    results = []
    for step in recorded:
        task, kind, _ = bound_step(step.kind, step.name, step.type)
        results.append(queue.blobs.shown_value(job_id, step.result, task, kind))
    return [msgspec.structs.replace(step, result=result) for step, result in zip(recorded, results, strict=True)]
