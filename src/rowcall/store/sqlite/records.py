"""Counts, history and retention in SQLite's words. Promises are those of `rowcall.store.records`."""

from __future__ import annotations

from rowcall.store import record_rows as made
from rowcall.store.records import Folded, Group, Past, StoreHealth
from rowcall.store.speech import as_json, only, plain
from rowcall.store.spoken_records import SpokenRecords
from rowcall.store.sqlite.records_sql import RecordsSql
from rowcall.store.statement import Plan, Statement, execute, fetch


class SqliteRecords(SpokenRecords):
    _records: RecordsSql
    _changes: str

    def take_tallies(self, before_ms: int, limit: int) -> Plan[list[Folded]]:
        taken = yield from fetch(Statement(self._records.oldest_tallies, (before_ms, limit), made.folded))
        yield from execute(plain(self._records.drop_tallies, as_json([row.id for row in taken])))
        return taken

    def take_minutes(self, before_ms: int, limit: int) -> Plan[list[Past]]:
        taken = yield from fetch(Statement(self._records.oldest_minutes, (before_ms, limit), made.numbered_past))
        yield from execute(plain(self._records.drop_minutes, as_json([number for number, _ in taken])))
        return [past for _, past in taken]

    def forget_past(self, before_ms: int, limit: int) -> Plan[int]:
        yield from execute(plain(self._records.forget_past, before_ms, limit))
        return (yield from only(Statement(self._changes, (), made.number)))

    def forget_future(self, after_ms: int, limit: int) -> Plan[int]:
        yield from execute(plain(self._records.forget_future, after_ms, limit))
        return (yield from only(Statement(self._changes, (), made.number)))

    def prune(self, group: Group, before_ms: int, limit: int) -> Plan[int]:
        yield from execute(plain(self._records.prune, *group, before_ms, limit))
        return (yield from only(Statement(self._changes, (), made.number)))

    def health(self) -> Plan[StoreHealth]:
        yield from ()
        return StoreHealth()
