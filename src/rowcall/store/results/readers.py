"""Plans of readers: callers that wait for the end of jobs, and streams of what happens to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from rowcall.base.times import milliseconds_of, time_of
from rowcall.domain.errors import JobNotFound
from rowcall.domain.job import JobEvent
from rowcall.store.dialect import HIGHEST, Dialect
from rowcall.store.queries import results as queries
from rowcall.store.queries.results import (
    FROM_EVENTS,
    KEPT_CHANGES,
    LATEST,
    DeletedRows,
    Happened,
    Heads,
    NewRow,
    Running,
)
from rowcall.store.statement import Plan

E = TypeVar("E")

ROWS_AT_ONCE, CHANGES_AT_ONCE = 1000, 5
MOST_RUNNING = 5_000
MOST_GAPS = 5_000
MOST_ENDS_KNOWN = 20_000
GAP_SETTLES_MS = 1_000

MISSED = "MISSED"
_OF_NEW_JOBS = ("ENQUEUED", "BLOCKED")
_IN_TIMELINE_ONLY = (
    *("HELD", "STEP_FINISHED", "STEP_FAILED", "SLEEPING", "WAITING", "SIGNAL_RECEIVED", "WAIT_TIMED_OUT"),
    *("CALLED", "CALL_SUCCEEDED", "CALL_FAILED", "CALL_CANCELLED", "WAIT_ABANDONED"),
)
_RECORDED_ENDS = ("FAILED", "CANCELLED", "EXPIRED")
_RECORDED = (
    *("MANUAL_RETRY", "CANCEL_REQUESTED", "COMPLETED", "RESCHEDULED", "PRIORITY_CHANGED", "EDITED", "REPLACED"),
    *("SIGNALLED", "TICK", "RUN_NOW"),
)
_KINDS_IN = (_OF_NEW_JOBS, (*_RECORDED, *_RECORDED_ENDS))
_OF_RUNNING_JOBS = ("CLAIMED", "STARTED", "HEARTBEAT", "PROGRESS")
KINDS = (
    *_OF_NEW_JOBS,
    "UNBLOCKED",
    *_OF_RUNNING_JOBS,
    *("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "RETRY_SCHEDULED", "SNOOZED", "RELEASED", "RECOVERED"),
    *_RECORDED,
    MISSED,
)
"""What can happen to a job, in the words of its timeline."""


_pairs = msgspec.json.Decoder(list[tuple[int, int]])


class Ends(NamedTuple):
    """Jobs that have ended, and jobs that an open transaction may be about to end without having seen the waiter."""

    over: set[int]
    unsure: set[int]


def ends(dialect: Dialect, job_ids: Collection[int]) -> Plan[Ends]:
    """Return which of the jobs have ended, or may be about to."""
    found = yield from dialect.ask(queries.ENDS, sorted(job_ids))
    return Ends({job_id for job_id, over in found if over}, {job_id for job_id, over in found if not over})


def notify_waiters(dialect: Dialect, ended: Collection[int], unblocked: Collection[int] = ()) -> Plan[None]:
    """Notify the waiters of these jobs, once the transaction is committed, and record them for readers of events."""
    yield from dialect.ask(queries.NOTIFY_WAITERS, [*sorted(ended), *(-job_id for job_id in sorted(unblocked))])


class EventFilter(NamedTuple):
    """Which events to return; None means all."""

    queue: str | None = None
    type: str | None = None
    kinds: frozenset[str] | None = None

    def wants_any(self, kinds: Iterable[str]) -> bool:
        return self.kinds is None or not self.kinds.isdisjoint(kinds)

    def fits(self, event: JobEvent) -> bool:
        return event.event == MISSED or (
            (self.queue is None or event.queue == self.queue)
            and (self.type is None or event.type == self.type)
            and (self.kinds is None or event.event in self.kinds)
        )


class Look(NamedTuple, Generic[E]):
    """What a reader found: events, or values of a stream, and whether there are more, or whether it cannot continue.

    `lost`: events may have been missed, and it has to start again. `gone`: the job was deleted, or no value can follow.
    """

    events: list[E]
    more: bool = False
    lost: bool = False
    gone: bool = False


class ReaderOf(Protocol[E]):
    """Reads what has happened since its last look. `waits_for` is the job, or `ANY_JOB`."""

    waits_for: int

    def start(self, dialect: Dialect, name: str) -> Plan[int]:
        """Begin, or begin again, and return the time."""

    def look(self, dialect: Dialect, name: str) -> Plan[Look[E]]: ...


def missed(now_ms: int, why: str) -> JobEvent:
    """Return the marker of missed events."""
    return JobEvent(at=time_of(now_ms), event=MISSED, detail=why)


def timelines(dialect: Dialect, job_ids: Sequence[int]) -> Plan[list[Happened]]:
    """Return the timelines of jobs, in the order of time."""
    lines = (yield from dialect.ask(queries.TIMELINES_OF, job_ids)) if job_ids else []
    for job_id in job_ids:
        lines += yield from dialect.ask(queries.TIMELINE_OF_ONE, job_id)
    return sorted(lines, key=lambda line: line.event.at)  # stable: each timeline stays in order


class JobReader:
    """Reads what happens to one job: the lines of its timeline that were not there before."""

    def __init__(self, job_id: int, wanted: EventFilter) -> None:
        self.waits_for = job_id
        self._wanted = wanted
        self._known: Counter[tuple[object, ...]] = Counter()
        self._has_ended = False

    def start(self, dialect: Dialect, name: str) -> Plan[int]:
        if (yield from self.look(dialect, name)).gone:
            raise JobNotFound(self.waits_for)
        return 0

    def look(self, dialect: Dialect, name: str) -> Plan[Look[JobEvent]]:
        lines = yield from timelines(dialect, [self.waits_for])
        counts: Counter[tuple[object, ...]] = Counter()
        events = []
        claims = {line.seq: line.event.at for line in lines if line.event.event == "CLAIMED"}
        for line in lines:
            # without its place in the timeline: the latest attempt may have become an earlier one; and a start by its
            # claim, because only the end of an attempt says exactly when it started
            at = claims.get(line.seq) if line.event.event == "STARTED" else line.event.at
            key = line.event.event, at, line.event.detail
            counts[key] += 1
            is_told = line.event.event not in _IN_TIMELINE_ONLY and self._wanted.fits(line.event)
            if counts[key] > self._known[key] and is_told:
                events.append(line.event)
        self._known |= counts
        if not lines and self._known and not self._has_ended:
            (heads,) = yield from dialect.ask(queries.EVENT_HEADS, name)
            events.append(missed(heads.now_ms, "the job was deleted before it ended, or before its end was read"))
        self._has_ended = any(line.is_finished for line in lines)
        return Look(events, gone=not lines)


class Gap(NamedTuple):
    """Ids that no row has yet: their transactions are still open, or were rolled back.

    No row comes any more once all transactions before `until` have ended. That is set a moment later: a transaction
    takes an id from its sequence before it gets its own number.
    """

    source: int
    low: int
    high: int
    seen_ms: int
    until: int = 0


class Fresh(NamedTuple):
    """What rows that were not read before are about: new jobs, events with their jobs, ends of attempts (jobs and
    leases), unblocked jobs, and deleted rows.
    """

    jobs: set[int]
    events: dict[int, int]
    ends: set[tuple[int, int]]
    unblocked: set[int]
    deleted: list[DeletedRows]

    @property
    def ended(self) -> set[int]:
        return {job_id for job_id, _ in self.ends}


class Reader:
    """Reads what happens to all jobs: from rows behind the ones that were read before, and from the running jobs.

    On a server, a transaction can commit rows with lower ids than rows that were read: such gaps are read again.
    """

    waits_for = queries.ANY_JOB

    def __init__(self, wanted: EventFilter) -> None:
        self._wanted = wanted
        self._read: list[int] = []
        self._gaps: list[Gap] = []
        self._running: dict[int, Running] = {}
        self._ends: dict[tuple[int, int], None] = {}

    def start(self, dialect: Dialect, name: str) -> Plan[int]:
        """Begin behind the newest rows, and return the time."""
        (heads,) = yield from dialect.ask(queries.EVENT_HEADS, name)
        self._gaps, self._read, self._ends = [], list(heads.newest), {}
        for source, _, high in heads.deleted:
            self._read[source] = max(self._read[source], high)
        if not dialect.ids_follow_commits:
            behind = [max(0, newest - ROWS_AT_ONCE) for newest in heads.newest]
            rows = yield from dialect.ask(queries.NEW_ROWS, *behind, ROWS_AT_ONCE, ROWS_AT_ONCE)
            self._gaps = _gaps_between(rows, behind, heads.now_ms)
        self._running = yield from self._running_now(dialect)
        return heads.now_ms

    def look(self, dialect: Dialect, name: str) -> Plan[Look[JobEvent]]:
        (heads,) = yield from dialect.ask(queries.EVENT_HEADS, name)
        behind = heads.change - self._read[-1]  # below 0: rows were lost, or the database is an older one
        if not heads.registered or not 0 <= behind <= KEPT_CHANGES or len(self._gaps) > MOST_GAPS:
            return Look([], lost=True)
        rows = yield from dialect.ask(queries.NEW_ROWS, *self._read, ROWS_AT_ONCE, CHANGES_AT_ONCE)
        counts = Counter(one.source for one in rows)
        late = (yield from dialect.ask(queries.LATE_ROWS, self._gaps, ROWS_AT_ONCE)) if self._gaps else []
        more = ROWS_AT_ONCE in (counts[0], counts[1], len(late)) or counts[2] == CHANGES_AT_ONCE
        is_behind = ROWS_AT_ONCE in (counts[0], len(late))
        if is_behind:  # first all new jobs, then what happened to them
            rows = [one for one in rows if one.source == 0]
        running = self._running if more else (yield from self._running_now(dialect))
        fresh = _fresh([*rows, *late], self._ends)
        if any(one.high == HIGHEST for one in fresh.deleted):  # the table was emptied: ids may begin again
            return Look([], lost=True)
        lines = yield from timelines(dialect, self._touched(fresh, running))
        recorded = _new_recorded_ends(lines, fresh)
        events = [
            line.event
            for line in lines
            if self._wanted.fits(line.event) and self._is_new(line, fresh, running, recorded)
        ]
        gone = (fresh.ended | fresh.unblocked) - {line.event.job_id for line in lines}
        reached = [max([read, *(one.id for one in rows if one.source == n)]) for n, read in enumerate(self._read)]
        for source, _, high in () if is_behind else heads.deleted:
            if counts[source] < ROWS_AT_ONCE:
                reached[source] = max(reached[source], high)
        passed = [one for one in heads.deleted if one.high <= reached[one.source]]
        if gone or any(map(self._is_unread, [*fresh.deleted, *passed])):
            events.append(missed(heads.now_ms, "jobs were deleted before their events were read"))
        if not dialect.ids_follow_commits:
            gaps = _without(self._gaps, late) + _gaps_between(rows, self._read, heads.now_ms)
            # a change that is still to be read may say that rows in a gap were deleted
            self._gaps = [gap for gap in _aged(gaps, heads) if more or not 0 < gap.until <= heads.oldest_open]
        self._read = reached
        if more or len(running) >= MOST_RUNNING:  # others may run, too
            ended = fresh.ended
            known = {job_id: one for job_id, one in self._running.items() if job_id not in ended}
            running = known if more else known | running
        self._running = running
        self._ends.update(dict.fromkeys(fresh.ends))
        if len(self._ends) > MOST_ENDS_KNOWN:
            self._ends = dict.fromkeys(list(self._ends)[-MOST_ENDS_KNOWN // 2 :])
        return Look(events, more)

    def _running_now(self, dialect: Dialect) -> Plan[dict[int, Running]]:
        if not self._wanted.wants_any(_OF_RUNNING_JOBS):
            return {}
        return {one.job_id: one for one in (yield from dialect.ask(queries.RUNNING_NOW, MOST_RUNNING))}

    def _is_unread(self, deleted: DeletedRows) -> bool:
        source, low, high = deleted
        is_between = any(gap.source == source and gap.low <= high and low <= gap.high for gap in self._gaps)
        return self._wanted.wants_any(_KINDS_IN[source]) and (high > self._read[source] or is_between)

    def _touched(self, fresh: Fresh, running: dict[int, Running]) -> list[int]:
        touched = {*fresh.events.values(), *fresh.ended, *fresh.unblocked}
        if running is not self._running:
            touched |= {job_id for job_id, one in running.items() if self._running.get(job_id) != one}
        return sorted(touched | fresh.jobs if self._wanted.wants_any(_OF_NEW_JOBS) else touched)

    def _is_new(
        self, line: Happened, fresh: Fresh, running: dict[int, Running], recorded: Collection[Happened]
    ) -> bool:
        job_id, event = line.event.job_id or 0, line.event.event
        if event in _IN_TIMELINE_ONLY:
            return False
        if line.seq == 0:
            return job_id in (fresh.unblocked if event == "UNBLOCKED" else fresh.jobs)
        if FROM_EVENTS <= line.seq < LATEST:
            return line.seq - FROM_EVENTS in fresh.events and (not _is_recorded_end(line) or line in recorded)
        now = running.get(job_id) if line.seq == LATEST and not line.is_finished else None
        ended = (job_id, line.lease) in fresh.ends and (line.seq < FROM_EVENTS or line.is_finished)
        if event not in _OF_RUNNING_JOBS or (now is None and not ended):
            return ended
        known = self._running.get(job_id)
        if known is None or known.lease != (line.lease - 1 if now is None else now.lease):
            return True
        if event in ("HEARTBEAT", "PROGRESS"):
            return known.heartbeat_ms != milliseconds_of(line.event.at)
        return event == "STARTED" and not known.started


def _is_recorded_end(line: Happened) -> bool:
    """Return whether a manual retry recorded how a job had ended, before the job's row said something else."""
    return FROM_EVENTS <= line.seq < LATEST and line.event.event in _RECORDED_ENDS and line.event.actor is None


def _new_recorded_ends(lines: Iterable[Happened], fresh: Fresh) -> list[Happened]:
    """Return the recorded ends that were not read before: of each job, as many as it has new ends that no row says."""
    of_jobs: dict[int | None, list[Happened]] = {}
    for line in lines:
        of_jobs.setdefault(line.event.job_id, []).append(line)
    new: list[Happened] = []
    for job_id, told in of_jobs.items():
        recorded = [line for line in told if _is_recorded_end(line)]
        if recorded:
            times = {line.event.at for line in recorded}
            of_rows = {
                line.lease
                for line in told
                if (line.seq == LATEST and line.is_finished)
                or (0 < line.seq < FROM_EVENTS and line.event.at not in times)
            }
            ends = [lease for ended_id, lease in fresh.ends if ended_id == job_id and lease not in of_rows]
            new += recorded[max(0, len(recorded) - len(ends)) :]
    return new


def _fresh(rows: Iterable[NewRow], known: Collection[tuple[int, int]]) -> Fresh:
    fresh = Fresh(set(), {}, set(), set(), [])
    for row in rows:
        if row.source == 0:
            fresh.jobs.add(row.id)
        elif row.source == 1:
            fresh.events[row.id] = int(row.about)
        else:
            for job_id, lease in _pairs.decode(row.about):
                if lease < 0:
                    fresh.deleted.append(DeletedRows(int(job_id < 0), abs(job_id), -lease))
                elif job_id < 0:
                    fresh.unblocked.add(-job_id)
                elif (job_id, lease) not in known:
                    fresh.ends.add((job_id, lease))
    return fresh


def _gaps_between(rows: Iterable[NewRow], read: Sequence[int], now_ms: int) -> list[Gap]:
    """Return the ids that are missing behind the ones that were read."""
    gaps, last = [], list(read)
    for source, row_id, _ in sorted(rows):
        if row_id > last[source] + 1:
            gaps.append(Gap(source, last[source] + 1, row_id - 1, now_ms))
        last[source] = row_id
    return gaps


def _without(gaps: Iterable[Gap], rows: Iterable[NewRow]) -> list[Gap]:
    """Return what is left of gaps after rows in them were found."""
    left = list(gaps)
    for source, row_id, _ in rows:
        for gap in left:
            if gap.source == source and gap.low <= row_id <= gap.high:
                left.remove(gap)
                left += [gap._replace(high=row_id - 1), gap._replace(low=row_id + 1)]
                break
    return [gap for gap in left if gap.low <= gap.high]


def _aged(gaps: Iterable[Gap], heads: Heads) -> Iterator[Gap]:
    for gap in gaps:
        is_due = gap.until == 0 and heads.now_ms - gap.seen_ms >= GAP_SETTLES_MS
        yield gap._replace(until=heads.next_transaction) if is_due else gap
