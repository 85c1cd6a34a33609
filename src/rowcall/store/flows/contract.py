"""What every database must be able to say about jobs that wait for others, about chains and about keys.

The contract
------------
* An edge goes from a blocker to a younger job. It is `open` until the blocker has ended; then `succeeded` (which it may
  also be called where a failure is passed over) or `failed`. A job is `blocked` while one of its edges is open.
* A blocker is never locked by who enqueues. Where two can write at once, edges to jobs that others can settle are
  written as `unsure`; a sweep locks the blocker, skipping those that are locked, and looks: from then on whoever
  settles the blocker sees the edge.
* Whoever settles a blocker resolves its edges in the same transaction, and locks what waits before it asks whether
  anything else keeps that waiting: of two that end at once, the later one sees the earlier.
* A key belongs to the newest job that has it, as the rows say. Who writes a job with a key locks the key first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from rowcall.domain.job import Chain, Job
from rowcall.store.new_job import Blocker as Blocker
from rowcall.store.new_job import Inserted, NewJob
from rowcall.store.new_job import Unique as Unique
from rowcall.store.statement import Plan


class Standing(NamedTuple):
    """What is known of a blocker: of a chain, the status is that of its last step."""

    status: str
    type: str
    created_at_ms: int


class Edge(msgspec.Struct, array_like=True, frozen=True, gc=False):
    blocker_id: int
    of_chain: int
    job_id: int
    place: int
    on_failure: str
    unsure: int


class EndedEdge(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An open edge whose blocker has ended."""

    blocker_id: int
    of_chain: int
    job_id: int
    on_failure: str
    status: str
    error_code: str | None


class UnsureEdge(msgspec.Struct, array_like=True, frozen=True, gc=False):
    blocker_id: int
    of_chain: int
    job_id: int
    on_failure: str


class BlockedEnd(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a blocked job ends because of its blocker."""

    job_id: int
    status: str
    error_code: str
    error_detail: str


class Touched(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job whose status was changed."""

    id: int
    queue: str
    type: str
    attempt: int


class Holder(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The newest job that has a key."""

    key: str
    job_id: int
    status: str


class Replacement(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a waiting job gets instead of what it had."""

    job_id: int
    payload: str
    run_at_ms: int | None
    delay_ms: int
    expires_at_ms: int | None
    expires_in_ms: int | None
    limits: str | None


class BlockerResult(NamedTuple):
    place: int
    status: str | None
    result: str | None
    blocker_id: int
    of_chain: int
    state: str


class ChainFilter(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    status: str | None = None
    before_id: int | None = None
    limit: int = 50


class Flows(Protocol):
    @property
    def one_writer(self) -> bool:
        """Whether nobody else can write before this transaction has ended."""

    def holds_together(self) -> Plan[bool]:
        """Whether the statements that follow are one transaction, as far as the database can tell."""

    def begin_writing(self) -> Plan[None]:
        """Be the one who writes before anything is read, where there is only one. A plain statement."""

    # jobs of different kinds at once; every statement of these may run in a transaction of the caller's
    def insert_orders(self, orders: Sequence[tuple[NewJob, str]], now_ms: int | None) -> Plan[list[Inserted]]:
        """Jobs and their payloads, with ids in the order given."""

    def mark_chains(self, steps: Sequence[tuple[int, int, int]]) -> Plan[None]:
        """Ids of jobs, with the chain and the index that each has in it."""

    def standing(self, blockers: Sequence[Blocker]) -> Plan[dict[Blocker, Standing]]: ...
    def insert_edges(self, edges: Sequence[Edge]) -> Plan[None]: ...
    def settle_edges(self, edges: Sequence[EndedEdge], state: str, now_ms: int | None) -> Plan[None]: ...
    def ends_of(self, edges: Collection[tuple[int, int]]) -> Plan[list[EndedEdge]]:
        """Those of the edges (blocker and job) that are open although the blocker has ended."""

    def lock_blocked(self, job_ids: Sequence[int]) -> Plan[None]: ...
    def end_blocked(self, ends: Sequence[BlockedEnd], now_ms: int | None) -> Plan[list[Touched]]: ...
    def unblock(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[int]]:
        """Those that nothing keeps waiting any more become ready, behind all that are."""

    # after a settle
    def ended_edges(self, job_ids: Collection[int]) -> Plan[list[EndedEdge]]:
        """Open edges of these jobs, and of the chains that they ended."""

    def doubt_edges(self, job_id: int) -> Plan[None]:
        """Have the open edges of a job swept: it ends in a transaction of the caller's."""

    # the sweep
    def unsure_edges(self, limit: int) -> Plan[list[UnsureEdge]]: ...
    def last_steps(self, chain_ids: Sequence[int]) -> Plan[dict[int, int]]: ...
    def lock_blockers(self, job_ids: Sequence[int]) -> Plan[dict[int, tuple[str, str | None]]]:
        """Status and error code of those that nobody else is at, which keep them until the transaction ends."""

    def existing(self, job_ids: Sequence[int]) -> Plan[set[int]]: ...
    def forgotten_edges(self, gone_code: str, limit: int) -> Plan[list[EndedEdge]]:
        """Open edges whose blocker has ended, but for those that wait for a retry, or is gone."""

    def trust_edges(self, edges: Sequence[UnsureEdge]) -> Plan[None]: ...

    # keys
    def lock_keys(self, kind: str, keys: Sequence[str]) -> Plan[None]:
        """Nobody else writes a job with one of these keys before the transaction ends."""

    def sees_all(self) -> Plan[bool]:
        """Whether the next statement sees what others have committed, and not what they had when this one began."""

    def key_holders(self, kind: str, keys: Sequence[str], unique: Unique, now_ms: int | None) -> Plan[list[Holder]]: ...
    def replace_waiting(self, given: Sequence[Replacement], now_ms: int | None) -> Plan[list[int]]:
        """Those that were still waiting, and are replaced."""

    def get_all(self, job_ids: Sequence[int]) -> Plan[dict[int, Job]]: ...

    # chains
    def chain(self, chain_id: int) -> Plan[Chain | None]: ...
    def chain_steps(self, chain_id: int) -> Plan[list[Job]]: ...
    def list_chains(self, wanted: ChainFilter) -> Plan[list[Chain]]: ...
    def taken_steps(self, steps: Sequence[tuple[int, int]]) -> Plan[set[tuple[int, int]]]:
        """Those of the steps (chain and index) that are there already."""

    def blocker_results(self, job_id: int) -> Plan[list[BlockerResult]]:
        """In the order in which they were given."""

    def previous_result(self, chain_id: int, chain_index: int) -> Plan[str | None]: ...
    def dependants(self, job_ids: Sequence[int]) -> Plan[list[Touched]]:
        """Jobs that are not finished and wait, or waited, for one of these, or for a chain that one of these began."""

    def complete_by_hand(self, job_id: int, result: str | None, now_ms: int | None) -> Plan[None]: ...
    def skip_steps(self, job_ids: Sequence[int], error_code: str, detail: str, now_ms: int | None) -> Plan[None]: ...
    def wait_anew(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[None]:
        """Block jobs that were to run again, if they failed for a blocker that has not succeeded since."""
