"""Payloads and results that are too large for a row: written before the row, read back, and deleted at last."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from rowcall.domain.blobs import reference_of
from rowcall.domain.encryption import Kind
from rowcall.domain.job import Job
from rowcall.drivers.blobs import refers
from rowcall.operations.effects import Blocking, EnsureSchema, Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.blobs.references import pinned, unpin
from rowcall.store.dialect import Dialect
from rowcall.store.queries.blobs import BLOB_PINS, JOBS_REFERRING, UNREFERRED_BLOBS
from rowcall.store.statement import Plan

T = TypeVar("T")
P = ParamSpec("P")
Text = TypeVar("Text", str, str | None)

GRACE_SECONDS = 86_400.0
GROUP_SIZE = 100


def store(queue: Queue, task: str, text: Text, kind: Kind, bound_to: str | None = None) -> Operation[Text]:
    """Return what the row is to hold: the text, or a reference to a blob that is written now. See `Blobs.stored`."""
    if text is None or len(text) <= queue.blobs.inline_length:
        return text
    yield from EnsureSchema()
    stored: Text = yield from Blocking(partial(queue.blobs.stored, task, text, kind, bound_to))
    return stored


def resolve(queue: Queue, job: Job) -> Operation[Job]:
    """Return the job with its payload and result in place of references to them."""
    return (yield from Blocking(queue.blobs.shown, job)) if refers(job) else job


def on_caller_connection(dialect: Dialect, texts: Sequence[str | None], plan: Plan[T]) -> Plan[T]:
    """Return the plan that writes these payloads or results, made safe for the caller's connection.

    The blobs are pinned there: the caller may commit much later than they were written.
    """
    references = [reference for text in texts if (reference := reference_of(text)) is not None]
    return pinned(dialect, secrets.token_hex(8), references, plan) if references else plan


def safe_on(
    connection: object, make_plan: Callable[Concatenate[Dialect, P], Plan[T]], *texts: str | None
) -> Callable[Concatenate[Dialect, P], Plan[T]]:
    """Return the function, whose plans write these texts; on a caller's connection with `on_caller_connection`."""
    if connection is None:
        return make_plan

    def make(dialect: Dialect, /, *args: P.args, **kwargs: P.kwargs) -> Plan[T]:
        return on_caller_connection(dialect, texts, make_plan(dialect, *args, **kwargs))

    return make


def collect_blobs(
    queue: Queue, grace_seconds: float = GRACE_SECONDS, stopping: Callable[[], bool] = lambda: False
) -> int:
    """Delete the blobs that no job refers to and that were not written for `grace_seconds`; return how many.

    It may be interrupted anywhere, and run next to other collectors and writers: a blob that is written again
    is kept, because the store checks its age again when it deletes.
    """
    store, removed = queue.blobs.store, 0
    queue.backend.ensure_schema()
    for digests in _in_groups(store.digests(grace_seconds)):
        if stopping():
            break
        _resolve_pins(queue, digests)
        for digest in queue.run(Read(queue.dialect.ask(UNREFERRED_BLOBS, digests))):
            store.delete(digest, grace_seconds)
            removed += 1
    return removed


def _resolve_pins(queue: Queue, digests: Sequence[str]) -> None:
    """Find out what became of calls that were cut off between their statements."""
    for pin in queue.run(Read(queue.dialect.ask(BLOB_PINS, digests))):
        job_ids = queue.run(Read(queue.dialect.ask(JOBS_REFERRING, pin.reference)))
        queue.run(Write(unpin, queue.dialect, pin, job_ids))


def _in_groups(given: Iterable[str]) -> Iterator[list[str]]:
    digests = iter(given)
    while group := list(itertools.islice(digests, GROUP_SIZE)):
        yield group
