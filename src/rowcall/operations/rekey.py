"""Encrypt again: what older keys encrypted, and what was written before there was a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from rowcall.domain.blobs import MARK
from rowcall.domain.encryption import TOKEN, token_of
from rowcall.domain.errors import BlobUnreadable, CannotDecrypt, InvalidOption, TooLarge
from rowcall.domain.job import Rekeyed
from rowcall.drivers.cipher import Cipher
from rowcall.operations.steps import Blocking, EnsureSchema, Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.control import rekey as plans
from rowcall.store.control.queries import TEXTS_OF_ATTEMPTS, TEXTS_OF_JOBS, History, Texts
from rowcall.store.dialect import Dialect
from rowcall.store.schedules.ticks import schedules
from rowcall.store.statement import Plan, Query

ROWS_AT_ONCE = 200
_CANNOT = (CannotDecrypt, BlobUnreadable, TooLarge)

Row = TypeVar("Row", Texts, History)


def rekey(queue: Queue, noted: Callable[[int], None] = lambda rows: None) -> Operation[Rekeyed]:
    """Encrypt all rows with the first key, in batches; `noted` is called after each, with the number of its rows."""
    yield from EnsureSchema()
    queue.blobs  # noqa: B018  # opens the queue, and with it the cipher
    if queue.cipher is None:
        raise InvalidOption("rekey", "needs keys: pass encrypt=Encryption(keys=[…]) to Rowcall")
    again = _Again(queue, queue.cipher)
    counts = Rekeyed()
    counts = yield from _rekey_table(queue, TEXTS_OF_JOBS, again.job, plans.rewrite_jobs, noted, counts)
    counts = yield from _rekey_table(queue, TEXTS_OF_ATTEMPTS, again.attempt, plans.rewrite_attempts, noted, counts)
    for row in (yield from Read(schedules(queue.dialect))):
        try:
            payload = again.in_row(row.payload)
        except _CANNOT:
            counts = _sum(counts, checked=1, unreadable=1)
            continue
        counts = _sum(counts, checked=1, rekeyed=int(payload != row.payload))
        if payload != row.payload:
            yield from Write(plans.rewrite_schedule, queue.dialect, row.name, row.payload, payload)
    return counts


def _rekey_table(
    queue: Queue,
    query: Query[Row],
    change: Callable[[Row], Row],
    write: Callable[[Dialect, Sequence[tuple[Row, Row]]], Plan[int]],
    noted: Callable[[int], None],
    counts: Rekeyed,
) -> Operation[Rekeyed]:
    after = 0
    while rows := (yield from Read(queue.dialect.ask(query, after, ROWS_AT_ONCE))):
        changes, unreadable = yield from Blocking(_changes, rows, change)
        written = (yield from Write(write, queue.dialect, changes)) if changes else 0
        counts = _sum(counts, checked=len(rows), rekeyed=written, unreadable=unreadable)
        noted(len(rows))
        if written < len(changes):  # changed meanwhile: look at these rows again
            continue
        after = rows[-1].id
    return counts


def _changes(rows: list[Row], change: Callable[[Row], Row]) -> tuple[list[tuple[Row, Row]], int]:
    changes, unreadable = [], 0
    for row in rows:
        try:
            changed = change(row)
        except _CANNOT:
            unreadable += 1
            continue
        if changed != row:
            changes.append((row, changed))
    return changes, unreadable


class _Again:
    """Returns rows as they are with the first key."""

    def __init__(self, queue: Queue, cipher: Cipher) -> None:
        self._blobs = queue.blobs
        self._cipher = cipher

    def job(self, row: Texts) -> Texts:
        result = row.result if row.result is None else self._stored(row.result)
        texts = self._text(row.error_detail), self._text(row.traceback), self._text(row.progress_message)
        return Texts(row.id, self._stored(row.payload), result, *texts)

    def attempt(self, row: History) -> History:
        return History(row.id, self._text(row.error_detail), self._text(row.traceback))

    def in_row(self, text: str) -> str:
        """Return a payload that is never in a blob store."""
        return text if self._is_current(text) else self._cipher.sealed_json(self._blobs.opened(text))

    def _stored(self, text: str) -> str:
        if self._is_current(text) or self._is_current(self._blobs.fetched_raw(text)):
            return text
        plain = self._blobs.fetched(text)
        if MARK in plain:  # the outcome of another job, whose arguments may be encrypted or in a blob
            plain = self._blobs.outcome(plain)
        return self._blobs.stored("rekey", plain)

    def _is_current(self, text: str) -> bool:
        token = token_of(text)
        return token is not None and self._is_first(token)

    def _text(self, text: str | None) -> str | None:
        if text is None or self._is_first(text):
            return text
        plain = self._cipher.opened_text(text)
        if TOKEN.search(plain):
            raise CannotDecrypt("", "a text of the row")
        return self._cipher.seal(plain)

    def _is_first(self, text: str) -> bool:
        found = TOKEN.fullmatch(text)
        return found is not None and found["key"] == self._cipher.first


def _sum(counts: Rekeyed, checked: int, rekeyed: int = 0, unreadable: int = 0) -> Rekeyed:
    return msgspec.structs.replace(
        counts,
        checked=counts.checked + checked,
        rekeyed=counts.rekeyed + rekeyed,
        unreadable=counts.unreadable + unreadable,
    )
