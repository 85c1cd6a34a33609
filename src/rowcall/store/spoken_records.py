"""Counts, history and retention, as far as every database is asked alike: only the words of the statements differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rowcall.store import record_rows as made
from rowcall.store.records import Arrived, Chores, Doomed, ErrorEnds, Group, Past, Running, Tally, Total, Waiting
from rowcall.store.speech import as_json, only, plain
from rowcall.store.statement import Plan, Statement, execute, fetch


class RecordStatements(Protocol):
    add_past: str
    add_totals: str
    arrivals: str
    attempts_of_waiting: str
    doomed: str
    drop_empty_totals: str
    error_ends: str
    finished_groups: str
    newest_id: str
    now: str
    past: str
    put_setting: str
    drop_setting: str
    chores: str
    finish_unfinished: str
    forget_totals: str
    forget_tallies: str
    count_all: str
    running: str
    settings: str
    size_bytes: str
    take_duty: str
    tally: str
    tally_on_loan: str
    totals: str
    waiting: str


class SpokenRecords:
    _records: RecordStatements

    def now(self, now_ms: int | None) -> Plan[int]:
        return only(Statement(self._records.now, (now_ms,), made.number))

    def tally(self, tallies: Sequence[Tally], now_ms: int | None) -> Plan[None]:
        return execute(plain(self._records.tally, now_ms, as_json(tallies)))

    def tally_on_loan(self, tallies: Sequence[Tally], now_ms: int | None) -> Plan[None]:
        return execute(plain(self._records.tally_on_loan, now_ms, as_json(tallies)))

    def totals(self) -> Plan[list[Total]]:
        return fetch(Statement(self._records.totals, (), made.total))

    def waiting(self) -> Plan[list[Waiting]]:
        return fetch(Statement(self._records.waiting, (), made.waiting))

    def attempts_of_waiting(self) -> Plan[list[tuple[str, int, int]]]:
        return fetch(Statement(self._records.attempts_of_waiting, (), made.attempts))

    def newest_id(self) -> Plan[int]:
        return only(Statement(self._records.newest_id, (), made.number))

    def arrivals(self, from_id: int, since_ms: int, until_ms: int) -> Plan[list[Arrived]]:
        return fetch(Statement(self._records.arrivals, (from_id, since_ms, until_ms), made.arrived))

    def past(self, since_ms: int, until_ms: int) -> Plan[list[Past]]:
        return fetch(Statement(self._records.past, (since_ms, until_ms), made.past))

    def error_ends(self, error_codes: Sequence[str]) -> Plan[list[ErrorEnds]]:
        return fetch(Statement(self._records.error_ends, (as_json(error_codes),), made.error_ends))

    def running(self, limit: int) -> Plan[list[Running]]:
        return fetch(Statement(self._records.running, (limit,), made.running))

    def add_totals(self, totals: Sequence[Total]) -> Plan[None]:
        yield from execute(plain(self._records.add_totals, as_json(totals)))
        yield from execute(plain(self._records.drop_empty_totals))

    def add_past(self, past: Sequence[Past]) -> Plan[None]:
        return execute(plain(self._records.add_past, as_json(past)))

    def finished_groups(self) -> Plan[list[Group]]:
        return fetch(Statement(self._records.finished_groups, (), made.group))

    def doomed(self, group: Group, before_ms: int | None) -> Plan[Doomed]:
        return only(Statement(self._records.doomed, (*group, before_ms), made.doomed))

    def size_bytes(self) -> Plan[int]:
        return only(Statement(self._records.size_bytes, (), made.number))

    def settings(self) -> Plan[dict[str, str]]:
        return dict((yield from fetch(Statement(self._records.settings, (), made.setting))))

    def put_setting(self, name: str, value: str) -> Plan[None]:
        return execute(plain(self._records.put_setting, name, value))

    def drop_setting(self, name: str) -> Plan[None]:
        return execute(plain(self._records.drop_setting, name))

    def chores(self, now_ms: int | None) -> Plan[Chores]:
        return only(Statement(self._records.chores, (now_ms,), made.chores))

    def recount(self) -> Plan[None]:
        yield from execute(plain(self._records.finish_unfinished))
        yield from execute(plain(self._records.forget_totals))
        yield from execute(plain(self._records.forget_tallies))
        yield from execute(plain(self._records.count_all))

    def take_duty(self, name: str, every_ms: int, now_ms: int | None) -> Plan[bool]:
        return bool((yield from fetch(plain(self._records.take_duty, now_ms, name, every_ms))))
