"""Edges, chains and keys in SQLite's words. Promises are those of `rowcall.store.flows.contract`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from rowcall.store import flow_rows as made
from rowcall.store import rows
from rowcall.store.dialect import Inserted, NewJob
from rowcall.store.flows.contract import BlockedEnd, Replacement, Touched, UnsureEdge
from rowcall.store.speech import as_json, only, plain
from rowcall.store.spoken_flows import SpokenFlows, order_of
from rowcall.store.sqlite.flows_sql import FlowsSql
from rowcall.store.statement import Plan, Statement, execute, fetch


class SqliteFlows(SpokenFlows):
    """Nobody else writes meanwhile: there is nothing to lock, and nothing to be unsure of."""

    _flows: FlowsSql
    one_writer = True

    def holds_together(self) -> Plan[bool]:
        yield from self.begin_writing()  # with which sqlite3 begins a transaction, if it does so by itself
        # the one thing that can be asked for and is forgotten at each commit
        deferring = Statement(self._flows.deferring, (), rows.number_from_row)
        was_on = yield from only(deferring)
        yield from execute(plain(self._flows.defer))
        yield from execute(plain(self._flows.read_something))
        is_on = yield from only(deferring)
        if is_on and not was_on:
            yield from execute(plain(self._flows.defer_no_more))
        return bool(is_on)

    def begin_writing(self) -> Plan[None]:
        return execute(plain(self._flows.begin_writing))

    def insert_orders(self, orders: Sequence[tuple[NewJob, str]], now_ms: int | None) -> Plan[list[Inserted]]:
        given = as_json([order_of(job, payload) for job, payload in orders])
        written = Statement(self._flows.insert_orders, (now_ms, given), rows.inserted_from_row)
        return sorted((yield from fetch(written)), key=attrgetter("id"))

    def lock_blocked(self, job_ids: Sequence[int]) -> Plan[None]:
        yield from ()

    def end_blocked(self, ends: Sequence[BlockedEnd], now_ms: int | None) -> Plan[list[Touched]]:
        touched = yield from fetch(Statement(self._flows.end_blocked, (now_ms, as_json(ends)), made.one_touched))
        yield from self._retag([job.id for job in touched])
        return touched

    def unblock(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[int]]:
        ready = yield from fetch(Statement(self._flows.unblock, (now_ms, as_json(job_ids)), rows.number_from_row))
        if ready:
            yield from execute(plain(self._flows.pass_turn))
            yield from self._retag(ready)
        return ready

    def doubt_edges(self, job_id: int) -> Plan[None]:
        yield from ()

    def unsure_edges(self, limit: int) -> Plan[list[UnsureEdge]]:
        yield from ()
        return []

    def last_steps(self, chain_ids: Sequence[int]) -> Plan[dict[int, int]]:
        yield from ()
        return {}

    def lock_blockers(self, job_ids: Sequence[int]) -> Plan[dict[int, tuple[str, str | None]]]:
        yield from ()
        return {}

    def existing(self, job_ids: Sequence[int]) -> Plan[set[int]]:
        yield from ()
        return set()

    def trust_edges(self, edges: Sequence[UnsureEdge]) -> Plan[None]:
        yield from ()

    def lock_keys(self, kind: str, keys: Sequence[str]) -> Plan[None]:
        yield from ()

    def sees_all(self) -> Plan[bool]:
        yield from ()
        return True

    def replace_waiting(self, given: Sequence[Replacement], now_ms: int | None) -> Plan[list[int]]:
        statement = Statement(self._flows.replace_waiting, (now_ms, as_json(given)), rows.number_from_row)
        replaced = yield from fetch(statement)
        yield from self._retag(replaced)
        return replaced

    def complete_by_hand(self, job_id: int, result: str | None, now_ms: int | None) -> Plan[None]:
        yield from execute(plain(self._flows.complete_by_hand, now_ms, job_id, result))
        yield from self._retag([job_id])

    def skip_steps(self, job_ids: Sequence[int], error_code: str, detail: str, now_ms: int | None) -> Plan[None]:
        yield from execute(plain(self._flows.skip_steps, now_ms, as_json(job_ids), error_code, detail))
        yield from self._retag(job_ids)

    def _list_of(self, job_ids: Sequence[int]) -> str:
        return as_json(job_ids)
