"""Edges, chains and keys in PostgreSQL's words. Promises are those of `rowcall.store.flows.contract`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowcall.store import flow_rows as made
from rowcall.store import rows
from rowcall.store.dialect import Inserted, NewJob
from rowcall.store.flows.contract import BlockedEnd, Replacement, Touched, UnsureEdge
from rowcall.store.postgres.flows_sql import FlowsSql
from rowcall.store.postgres.rows import array, somebody_listens
from rowcall.store.speech import as_json, only, plain
from rowcall.store.spoken_flows import SpokenFlows, order_of
from rowcall.store.statement import Plan, Statement, execute, fetch


class PostgresFlows(SpokenFlows):
    _flows: FlowsSql
    one_writer = False

    def holds_together(self) -> Plan[bool]:
        began = yield from only(plain(self._flows.transaction_began))
        return began == (yield from only(plain(self._flows.transaction_began)))

    def begin_writing(self) -> Plan[None]:
        yield from ()

    def insert_orders(self, orders: Sequence[tuple[NewJob, str]], now_ms: int | None) -> Plan[list[Inserted]]:
        given = as_json([order_of(job, payload) for job, payload in orders])
        statement = Statement(self._flows.insert_orders, (now_ms, given), made.inserted, somebody_listens)
        return (yield from only(statement))

    def lock_blocked(self, job_ids: Sequence[int]) -> Plan[None]:
        return execute(plain(self._flows.lock_blocked, array(sorted(job_ids))))

    def end_blocked(self, ends: Sequence[BlockedEnd], now_ms: int | None) -> Plan[list[Touched]]:
        given = as_json({str(end.job_id): end for end in ends})
        return only(Statement(self._flows.end_blocked, (now_ms, given), made.touched))

    def unblock(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[int]]:
        given = (now_ms, array(sorted(job_ids)))
        return only(Statement(self._flows.unblock, given, made.ids, somebody_listens))

    def doubt_edges(self, job_id: int) -> Plan[None]:
        return execute(plain(self._flows.doubt_edges, job_id))

    def unsure_edges(self, limit: int) -> Plan[list[UnsureEdge]]:
        return only(Statement(self._flows.unsure_edges, (limit,), made.unsure))

    def last_steps(self, chain_ids: Sequence[int]) -> Plan[dict[int, int]]:
        return dict((yield from only(Statement(self._flows.last_steps, (array(chain_ids),), made.pairs))))

    def lock_blockers(self, job_ids: Sequence[int]) -> Plan[dict[int, tuple[str, str | None]]]:
        return dict((yield from fetch(Statement(self._flows.lock_blockers, (array(job_ids),), made.locked))))

    def existing(self, job_ids: Sequence[int]) -> Plan[set[int]]:
        return set((yield from fetch(Statement(self._flows.existing, (array(job_ids),), rows.number_from_row))))

    def trust_edges(self, edges: Sequence[UnsureEdge]) -> Plan[None]:
        return execute(plain(self._flows.trust_edges, as_json(edges)))

    def lock_keys(self, kind: str, keys: Sequence[str]) -> Plan[None]:
        return execute(plain(self._flows.lock_keys, kind, as_json(keys)))

    def sees_all(self) -> Plan[bool]:
        return (yield from only(Statement(self._flows.isolation, (), rows.text_from_row))) == "read committed"

    def replace_waiting(self, given: Sequence[Replacement], now_ms: int | None) -> Plan[list[int]]:
        document = as_json({str(one.job_id): one for one in given})
        return (yield from only(Statement(self._flows.replace_waiting, (now_ms, document), made.ids, somebody_listens)))

    def complete_by_hand(self, job_id: int, result: str | None, now_ms: int | None) -> Plan[None]:
        return execute(plain(self._flows.complete_by_hand, now_ms, job_id, result))

    def skip_steps(self, job_ids: Sequence[int], error_code: str, detail: str, now_ms: int | None) -> Plan[None]:
        return execute(plain(self._flows.skip_steps, now_ms, array(job_ids), error_code, detail))

    def _retag(self, job_ids: Collection[int]) -> Plan[None]:
        yield from ()  # a trigger does that

    def _list_of(self, job_ids: Sequence[int]) -> str:
        return array(job_ids)
