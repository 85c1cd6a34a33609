"""Encrypt again: what older keys encrypted, and what was written before there was a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from rowcall.domain.blobs import MARK
from rowcall.domain.encryption import TOKEN, Kind, bound_step, token_of
from rowcall.domain.errors import BlobUnreadable, CannotDecrypt, InvalidOption, TooLarge
from rowcall.domain.job import Rekeyed
from rowcall.drivers.cipher import Cipher
from rowcall.drivers.patience import UNLIMITED, with_patience
from rowcall.operations.effects import Blocking, EnsureSchema, Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.control import rekey as plans
from rowcall.store.dialect import Dialect
from rowcall.store.queries.control import (
    DROP_OLD_REFERENCES,
    TEXTS_OF_ATTEMPTS,
    TEXTS_OF_JOBS,
    TEXTS_OF_LOGS,
    TEXTS_OF_SIGNALS,
    TEXTS_OF_STEPS,
    TEXTS_OF_STREAMS,
    History,
    LogText,
    SignalText,
    StepTexts,
    StreamText,
    Texts,
)
from rowcall.store.schedules.ticks import schedules
from rowcall.store.statement import Plan, Query

ROWS_AT_ONCE = 200
_CANNOT = (CannotDecrypt, BlobUnreadable, TooLarge)

Text = TypeVar("Text", str, str | None)
Row = TypeVar("Row", Texts, History, StepTexts, SignalText, StreamText, LogText)


class EncryptedTable(NamedTuple, Generic[Row]):
    """How rows of a table are read, changed and written. The next read begins behind the `place` of the last row."""

    query: Query[Row]
    change: Callable[[Row], Row]
    write: Callable[[Dialect, Sequence[tuple[Row, Row]]], Plan[int]]
    place: Callable[[Row], tuple[int, ...]] = lambda row: row[:1]


@with_patience(UNLIMITED)
def rekey(queue: Queue) -> Operation[Rekeyed]:
    """Encrypt with the first key what other keys encrypted, and what was written before there was a key.

    It works in small batches while workers run, and can be stopped and repeated at any time.
    """
    yield from EnsureSchema()
    queue.blobs  # noqa: B018  # opens the queue, and with it the cipher
    if queue.backend.cipher is None:
        raise InvalidOption("rekey", "needs keys: pass encrypt=Encryption(keys=[…]) to Rowcall")
    again = _Again(queue, queue.backend.cipher)
    counts: Counter[str] = Counter()
    yield from _rekey_table(queue, EncryptedTable(TEXTS_OF_JOBS, again.job, plans.rewrite_jobs), counts)
    yield from _rekey_table(queue, EncryptedTable(TEXTS_OF_ATTEMPTS, again.attempt, plans.rewrite_attempts), counts)
    steps = EncryptedTable(TEXTS_OF_STEPS, again.step, plans.rewrite_steps, lambda row: (row.job_id, row.position))
    yield from _rekey_table(queue, steps, counts, (0, 0))
    yield from _rekey_table(queue, EncryptedTable(TEXTS_OF_SIGNALS, again.signal, plans.rewrite_signals), counts)
    streams = EncryptedTable(TEXTS_OF_STREAMS, again.stream, plans.rewrite_streams, lambda row: row[:2])
    yield from _rekey_table(queue, streams, counts, (0, 0))
    logs = EncryptedTable(TEXTS_OF_LOGS, again.log, plans.rewrite_logs, lambda row: row[:2])
    yield from _rekey_table(queue, logs, counts, (0, 0))
    for row in (yield from Read(schedules(queue.dialect))):
        counts["checked"] += 1
        try:
            payload = again.in_row(row.payload, row.task)
        except _CANNOT:
            counts["unreadable"] += 1
            continue
        if payload != row.payload:
            counts["rekeyed"] += 1
            yield from Write(plans.rewrite_schedule, queue.dialect, row.name, row.payload, payload)
    for ids in _groups(sorted(again.jobs_with_blobs)):
        yield from Write(queue.dialect.ask, DROP_OLD_REFERENCES, ids)
    return Rekeyed(**counts)


def _groups(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + ROWS_AT_ONCE] for start in range(0, len(ids), ROWS_AT_ONCE)]


def _rekey_table(
    queue: Queue, table: EncryptedTable[Row], counts: Counter[str], after: tuple[int, ...] = (0,)
) -> Operation[None]:
    while rows := (yield from Read(queue.dialect.ask(table.query, *after, ROWS_AT_ONCE))):
        changes, unreadable = yield from Blocking(_changes, rows, table.change)
        written = (yield from Write(table.write, queue.dialect, changes)) if changes else 0
        counts["rekeyed"] += written
        if written < len(changes):  # others have changed some of them: look at these rows again
            continue
        counts["checked"] += len(rows)
        counts["unreadable"] += unreadable
        after = table.place(rows[-1])


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
        self.jobs_with_blobs: set[int] = set()
        """Jobs that may have referred to blobs which they do not need any more."""

    def job(self, row: Texts) -> Texts:
        task = row.type
        return Texts(
            row.id,
            self._stored(row.id, row.payload, task, Kind.ARGUMENTS),
            self._stored_or_none(row.id, row.result, task, Kind.RESULT),
            self._text(row.error_detail, task, Kind.ERROR),
            self._text(row.traceback, task, Kind.TRACEBACK),
            self._text(row.progress_message, task, Kind.PROGRESS),
            task,
        )

    def attempt(self, row: History) -> History:
        detail = self._text(row.error_detail, row.type, Kind.ERROR)
        return History(row.id, detail, self._text(row.traceback, row.type, Kind.TRACEBACK), row.type)

    def step(self, row: StepTexts) -> StepTexts:
        task, result_kind, error_kind = bound_step(row.kind, row.name, row.type)
        result = self._stored_or_none(row.job_id, row.result, task, result_kind)
        detail = self._text(row.error_detail, task, error_kind)
        question = None if row.question is None else self.in_row(row.question, row.type, Kind.STEP)
        return row._replace(result=result, error_detail=detail, question=question)

    def signal(self, row: SignalText) -> SignalText:
        value = self._stored_or_none(row.job_id, row.value, row.type, Kind.STEP)
        return SignalText(row.id, row.job_id, value, row.type)

    def stream(self, row: StreamText) -> StreamText:
        return row._replace(value=self.in_row(row.value, row.type, Kind.STREAM))

    def log(self, row: LogText) -> LogText:
        return row._replace(lines=self._text(row.lines, row.type, Kind.LOG))

    def in_row(self, text: str, task: str, kind: Kind = Kind.ARGUMENTS) -> str:
        """Return a text that is never in a blob store."""
        if self._is_current(text):
            return text
        return self._cipher.encrypted_json(self._blobs.decrypted(text, task, kind), task, kind)

    def _stored_or_none(self, job_id: int, text: str | None, task: str, kind: Kind) -> str | None:
        return None if text is None else self._stored(job_id, text, task, kind)

    def _stored(self, job_id: int, text: str, task: str, kind: Kind) -> str:
        if self._is_current(text) or self._is_current(self._blobs.fetched_raw(text)):
            return text
        if kind is Kind.ARGUMENTS:  # perhaps of a follow-up: with parts of another job, encrypted or in blobs
            plain = self._blobs.payload(text, task, takes_outcome=True)
        else:
            plain = self._blobs.fetched(text, task, kind)
        if MARK in text:
            self.jobs_with_blobs.add(job_id)
        return self._blobs.stored(task, plain, kind)

    def _is_current(self, text: str) -> bool:
        token = token_of(text)
        return token is not None and self._is_first(token)

    def _text(self, text: Text, task: str, kind: Kind) -> Text:
        if text is None or self._is_first(text):
            return text
        token = TOKEN.match(text)
        if token is not None:
            plain = self._cipher.decrypt(token[0], task, kind) + text[token.end() :]
        elif self._cipher.requires:  # Rowcall writes some of these texts itself: to encrypt others would approve them
            return text
        else:
            plain = text
        return self._cipher.encrypt(plain, task, kind)

    def _is_first(self, text: str) -> bool:
        found = TOKEN.fullmatch(text)
        return found is not None and found["key"] == self._cipher.first
