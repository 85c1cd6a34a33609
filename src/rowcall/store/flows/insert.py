"""Inserts jobs of different tasks and options at once."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from rowcall.store.dialect import Dialect
from rowcall.store.flows.queries import INSERT_EACH, ISOLATION, inserted_fields
from rowcall.store.new_job import Inserted, NewJob
from rowcall.store.statement import Plan


def insert_each(dialect: Dialect, jobs: Sequence[tuple[NewJob, str]], now_ms: int | None) -> Plan[list[Inserted]]:
    """Insert jobs and their payloads; ids rise in the order given."""
    rows = yield from dialect.ask(INSERT_EACH, now_ms, [inserted_fields(job, payload) for job, payload in jobs])
    return sorted(rows, key=attrgetter("id"))


def sees_all(dialect: Dialect) -> Plan[bool]:
    """Return whether the next statement sees what other transactions have committed since this one began."""
    return dialect.one_writer or (yield from dialect.ask(ISOLATION)) == ["read committed"]
