"""Which jobs need which blobs, written with the rows that refer to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rowcall.domain.blobs import Reference, reference_of
from rowcall.domain.errors import RowcallError
from rowcall.store.dialect import Dialect
from rowcall.store.queries.blobs import PIN_BLOBS, REFER_TO_BLOBS, UNPIN_BLOBS, Pin
from rowcall.store.statement import Plan

T = TypeVar("T")


def refer_to(dialect: Dialect, texts: Sequence[str | None], job_ids: Sequence[int]) -> Plan[None]:
    """Write down what some jobs refer to, of their payloads or results."""
    pairs = []
    for text, job_id in zip(texts, job_ids, strict=True):
        reference = reference_of(text)
        if reference is not None:
            pairs.append((reference.digest, job_id))
    if pairs:
        yield from dialect.ask(REFER_TO_BLOBS, pairs)


def pinned(dialect: Dialect, token: str, references: Sequence[Reference], plan: Plan[T]) -> Plan[T]:
    """Run a plan on a connection of the caller's, which may commit each statement separately: a crash between the row
    and what is written down of it leaves the pins, which keep the blobs until they are checked.
    """
    yield from dialect.ask(PIN_BLOBS, token, list({one.digest: one.text for one in references}.items()))
    try:
        result = yield from plan
    except RowcallError:  # refused: the caller's transaction may still be committed
        yield from dialect.ask(UNPIN_BLOBS, token)
        raise
    yield from dialect.ask(UNPIN_BLOBS, token)
    return result


def unpin(dialect: Dialect, pin: Pin, job_ids: Sequence[int]) -> Plan[None]:
    """Remove a pin that was checked; `job_ids` are the jobs that refer to its blob."""
    if job_ids:
        yield from dialect.ask(REFER_TO_BLOBS, [(pin.digest, job_id) for job_id in job_ids])
    yield from dialect.ask(UNPIN_BLOBS, pin.token)
