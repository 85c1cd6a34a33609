"""Edges, chains and keys, as far as every database is asked alike: only the words of the statements differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Protocol

from rowcall.domain.job import Chain, Job
from rowcall.store import flow_rows as made
from rowcall.store import rows
from rowcall.store.dialect import NewJob
from rowcall.store.flows.contract import (
    Blocker,
    BlockerResult,
    ChainFilter,
    Edge,
    EndedEdge,
    Holder,
    Standing,
    Touched,
    Unique,
)
from rowcall.store.new_job import fields_of
from rowcall.store.speech import as_json, only, plain
from rowcall.store.statement import Parameter, Plan, Statement, execute, fetch, first

HIGHEST_ID = 2**63 - 1


class FlowStatements(Protocol):
    insert_orders: str
    mark_chains: str
    standing: str
    insert_edges: str
    settle_edges: str
    ends_of: str
    end_blocked: str
    unblock: str
    ended_edges: str
    key_holders: str
    replace_waiting: str
    get_all: str
    chain: str
    chain_steps: str
    list_chains: str
    taken_steps: str
    blocker_results: str
    previous_result: str
    dependants: str
    complete_by_hand: str
    skip_steps: str
    reopen_edges: str
    forgive_edges: str
    reblock: str
    forgotten_edges: str


class SpokenFlows(ABC):
    _flows: FlowStatements

    def mark_chains(self, steps: Sequence[tuple[int, int, int]]) -> Plan[None]:
        return execute(plain(self._flows.mark_chains, as_json(steps)))

    def standing(self, blockers: Sequence[Blocker]) -> Plan[dict[Blocker, Standing]]:
        given = as_json([(blocker.job_id, int(blocker.of_chain)) for blocker in blockers])
        return only(Statement(self._flows.standing, (given,), made.standing))

    def insert_edges(self, edges: Sequence[Edge]) -> Plan[None]:
        return execute(plain(self._flows.insert_edges, as_json(edges)))

    def settle_edges(self, edges: Sequence[EndedEdge], state: str, now_ms: int | None) -> Plan[None]:
        return execute(plain(self._flows.settle_edges, now_ms, state, as_json(edges)))

    def ends_of(self, edges: Collection[tuple[int, int]]) -> Plan[list[EndedEdge]]:
        return only(Statement(self._flows.ends_of, (as_json(list(edges)),), made.ended))

    def key_holders(self, kind: str, keys: Sequence[str], unique: Unique, now_ms: int | None) -> Plan[list[Holder]]:
        given = (now_ms, kind, as_json(keys), unique.scope, unique.window_ms)
        return only(Statement(self._flows.key_holders, given, made.holders))

    def get_all(self, job_ids: Sequence[int]) -> Plan[dict[int, Job]]:
        found = yield from fetch(Statement(self._flows.get_all, (self._list_of(job_ids),), rows.job_from_row))
        return {job.id: job for job in found}

    def ended_edges(self, job_ids: Collection[int]) -> Plan[list[EndedEdge]]:
        return only(Statement(self._flows.ended_edges, (self._list_of(sorted(job_ids)),), made.ended))

    def chain(self, chain_id: int) -> Plan[Chain | None]:
        return first(Statement(self._flows.chain, (chain_id,), made.chain))

    def chain_steps(self, chain_id: int) -> Plan[list[Job]]:
        return fetch(Statement(self._flows.chain_steps, (chain_id,), rows.job_from_row))

    def list_chains(self, wanted: ChainFilter) -> Plan[list[Chain]]:
        before = HIGHEST_ID if wanted.before_id is None else wanted.before_id
        given = (before, wanted.type, wanted.status, wanted.limit)
        return fetch(Statement(self._flows.list_chains, given, made.chain))

    def taken_steps(self, steps: Sequence[tuple[int, int]]) -> Plan[set[tuple[int, int]]]:
        return set((yield from only(Statement(self._flows.taken_steps, (as_json(steps),), made.pairs))))

    def blocker_results(self, job_id: int) -> Plan[list[BlockerResult]]:
        return fetch(Statement(self._flows.blocker_results, (job_id,), made.blocker_result))

    def previous_result(self, chain_id: int, chain_index: int) -> Plan[str | None]:
        return first(Statement(self._flows.previous_result, (chain_id, chain_index), made.text_or_none))

    def dependants(self, job_ids: Sequence[int]) -> Plan[list[Touched]]:
        return only(Statement(self._flows.dependants, (self._list_of(job_ids),), made.touched))

    def forgotten_edges(self, gone_code: str, limit: int) -> Plan[list[EndedEdge]]:
        return only(Statement(self._flows.forgotten_edges, (gone_code, limit), made.ended))

    def wait_anew(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[None]:
        given = self._list_of(job_ids)
        yield from execute(plain(self._flows.reopen_edges, given))
        yield from execute(plain(self._flows.forgive_edges, now_ms, given))
        yield from execute(plain(self._flows.reblock, given))
        yield from self._retag(job_ids)

    @abstractmethod
    def _list_of(self, job_ids: Sequence[int]) -> str:
        """Ids as this database takes many of them."""

    @abstractmethod
    def _retag(self, job_ids: Collection[int]) -> Plan[None]:
        """Let the tags of these jobs say what has become of them."""


def order_of(job: NewJob, payload: str) -> tuple[Parameter, ...]:
    """A job as the fields that `insert_orders` takes."""
    own = (job.key, job.limits, job.blocked, job.chain_id, job.chain_index)
    return (*fields_of(job, payload), *own)
