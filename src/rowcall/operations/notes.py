"""Notes: names that are remembered for a time."""

from __future__ import annotations

from rowcall.operations.effects import Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.queries.notes import NOTE, WRITE_NOTE


def has_note(queue: Queue, name: str) -> Operation[bool]:
    return bool((yield from Read(queue.dialect.ask(NOTE, name))))


def write_note(queue: Queue, name: str, seconds: int) -> Operation[None]:
    yield from Write(queue.dialect.ask, WRITE_NOTE, name, seconds * 1000, "")
