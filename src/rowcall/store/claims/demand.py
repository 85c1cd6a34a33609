"""What a claimer asks for, and what it gets: the values that go into a round and come out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from rowcall.domain.outcome import Transition
from rowcall.store.jobs.unreadable import Unreadable
from rowcall.store.limits.admission import DeclaredLimits
from rowcall.store.new_job import OnEnd
from rowcall.store.queries.claims import NOTHING_KNOWN, Fence, Ready, Starts, Work, key_of
from rowcall.store.queries.ends import Owner

FEWEST_QUEUES, LEAST_SHARE = 10, 25
"""A round visits that many queues at once, or more if each still has a share that is worth a statement."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a claimer has room for: `slots` jobs start now, `buffer` more may wait in its buffer."""

    worker: str
    holder: int = 0
    slots: int
    buffer: int = 0
    lost_ahead: int = 0
    """How many jobs in the buffer may be ones that were lost before: a kill may charge them for it."""
    last_ahead: int | None = None
    """How many may be on their last attempt; None for any number."""
    types: Mapping[str, str | None] | None = None
    """The tasks that it knows, with their fingerprints; None for all."""
    queues: Mapping[str, int | None] | None = None
    last_queue: str = ""
    """The round starts at the queue behind this one, in the order of their names."""
    lease_ms: int | None = None
    batches: Mapping[str, int] = {}
    """How many jobs of these types share one slot."""
    batch_room: Mapping[str, int] = {}
    """How many more jobs of these types fit into batches that already have a slot."""
    limits: DeclaredLimits = DeclaredLimits()
    aliases: Mapping[str, str] = {}
    """Task names by their aliases."""
    on_end: OnEnd | None = None
    resume: Starts = NOTHING_KNOWN
    """Where the last round ended. Jobs before these rows wait for a round without it."""

    @property
    def owner(self) -> Owner:
        return Owner(self.worker, self.holder)

    @property
    def room(self) -> int:
        return self.slots + self.buffer

    @property
    def queues_at_once(self) -> int:
        return max(FEWEST_QUEUES, self.room // LEAST_SHARE)

    @property
    def ring(self) -> list[str] | None:
        """The queues that it serves, in turn; None if it serves all that there are."""
        return None if self.queues is None else in_turn(sorted(self.queues), self.last_queue)

    @property
    def wants_any(self) -> bool:
        return self.room > 0 or any(self.batch_room.values())


def in_turn(queues: list[str], last_queue: str) -> list[str]:
    """Return the queues, starting behind the given one, if it is among them."""
    turn = queues.index(last_queue) + 1 if last_queue in queues else 0
    return queues[turn:] + queues[:turn]


class RoundResult(msgspec.Struct):
    """What a round claimed. Jobs in `joining` join a batch that was started; jobs in `unread` have failed because their
    rows cannot be read. `more`: another round would find something at once. `stuck`: another transaction has locked
    what is due. `left`: another transaction has locked the limit of some jobs.
    """

    work: Work
    started: list[Ready] = []
    buffered: list[Ready] = []
    joining: list[Ready] = []
    unread: list[Unreadable] = []
    last_queue: str = ""
    """The next round starts at the queue behind this one."""
    knows_all: bool = False
    """Whether `work` has all queues with ready jobs."""
    settled: set[int] = set()
    cancelled: dict[int, Transition] = {}
    void: list[Fence] = []
    """Those of the void attempts whose rows another transaction has locked."""
    more: bool = False
    stuck: bool = False
    left: bool = False
    marked: set[int] = set()
    """Those of the others whose claims say that they have started: a kill counts as an attempt."""
    slot_needed: bool = False
    """Whether a job that must start when it is claimed found no free slot; nothing behind it was claimed."""
    is_cut: bool = False
    """Whether jobs were found that may not wait in the buffer."""

    @property
    def jobs(self) -> list[Ready]:
        return [*self.started, *self.buffered, *self.joining]

    @property
    def taken(self) -> int:
        """How many of its jobs need a slot, now or later."""
        return len(self.started) + len(self.buffered)

    def starts(self, resumed: Starts = NOTHING_KNOWN) -> Starts:
        """Return where a round may resume that had the `resumed` starts: behind the last jobs of this one."""
        last = {(job.queue, key_of(job.type, job.unfit)): job for job in (*self.started, *self.buffered)}
        # fair jobs, and the next ones in order, may come before the last one that was claimed
        plain = {pair: job.order() for pair, job in last.items() if job.fair is None and job.ordered is None}
        return {pair: plain.get(pair) or resumed.get(pair) for pair in self.work.ready}

    def drop(self, job_ids: Collection[int]) -> None:
        """Leave out jobs that could not be claimed."""
        for jobs in (self.started, self.buffered, self.joining):
            jobs[:] = [job for job in jobs if job.id not in job_ids]
