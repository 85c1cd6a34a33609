"""Counts, history and retention in PostgreSQL's words. Promises are those of `rowcall.store.records`."""

from __future__ import annotations

from rowcall.store import record_rows as made
from rowcall.store.postgres.records_sql import RecordsSql
from rowcall.store.records import Folded, Group, Past, StoreHealth
from rowcall.store.speech import only, plain
from rowcall.store.spoken_records import SpokenRecords
from rowcall.store.statement import Plan, Statement, execute, fetch


class PostgresRecords(SpokenRecords):
    _records: RecordsSql

    def take_tallies(self, before_ms: int, limit: int) -> Plan[list[Folded]]:
        return fetch(Statement(self._records.take_tallies, (before_ms, limit), made.folded))

    def take_minutes(self, before_ms: int, limit: int) -> Plan[list[Past]]:
        return fetch(Statement(self._records.take_minutes, (before_ms, limit), made.past))

    def forget_past(self, before_ms: int, limit: int) -> Plan[int]:
        return only(Statement(self._records.forget_past, (before_ms, limit), made.number))

    def forget_future(self, after_ms: int, limit: int) -> Plan[int]:
        return only(Statement(self._records.forget_future, (after_ms, limit), made.number))

    def prune(self, group: Group, before_ms: int, limit: int) -> Plan[int]:
        return only(Statement(self._records.prune, (*group, before_ms, limit), made.number))

    def recount(self) -> Plan[None]:
        yield from execute(plain(self._records.lock_tallies))
        yield from super().recount()

    def health(self) -> Plan[StoreHealth]:
        return only(Statement(self._records.health, (), made.health))
