"""Moves a queue to another database, in phases that can be interrupted anywhere and continued."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, cast

import msgspec

from rowcall.domain.errors import DataRefused, InvalidOption, StoreUnavailable
from rowcall.domain.job import EVERY_QUEUE
from rowcall.drivers.patience import UNLIMITED, patience
from rowcall.moving.verify import Verified, verify
from rowcall.overview.formats import counted
from rowcall.queue import Backend, Queue, has_tables
from rowcall.store.moves import copying
from rowcall.store.moves.copying import ACTOR, Rows
from rowcall.store.moves.state import (
    AWAY,
    FILLING,
    HERE,
    OPEN,
    OPENING,
    SEALED,
    SEALING,
    WATCHED,
    MoveState,
    change_state,
    state_of,
)
from rowcall.store.moves.tables import MOVED
from rowcall.store.queries.control import PAUSE
from rowcall.store.statement import Plan
from rowcall.worker.upkeep.recovery import Recovery

logger = logging.getLogger("rowcall")

JOBS_AT_ONCE = 2000
CHANGES_AT_ONCE = 1000
FEW_CHANGES = 200
"""They are copied in a few milliseconds, while producers wait."""
LOOK_AGAIN_SECONDS = 0.05
RECOVER_SECONDS = 1.0


class Progress(NamedTuple):
    """A phase, and how many jobs of how many it has done."""

    phase: str
    done: int = 0
    of: int = 0
    note: str = ""


class MovePlan(NamedTuple):
    """What a move would do. `copied`: up to which id an interrupted move has copied the jobs."""

    jobs: int
    by_status: dict[str, int]
    running: int
    copied: int


class MoveReport(NamedTuple):
    """What a move has done. `held_ms` is how long producers were refused."""

    jobs: int
    rows: int
    seconds: float
    held_ms: float
    verified: Verified


Report = Callable[[Progress], None]


class Mover:
    """One run of `rowcall move`. `wait_seconds` is how long running attempts may take to end."""

    def __init__(
        self,
        queue: Queue,
        target: Backend,
        *,
        wait_seconds: float,
        full: bool = False,
        report: Report,
    ) -> None:
        self._source = source = queue.own_backend
        if source.database.name == target.database.name:
            raise InvalidOption(
                "TO", f"names the database that is to be moved, {target.database.name}: name another one"
            )
        self._target = target
        self._wait_seconds = wait_seconds
        self._full = full
        self._report = report
        self._recovery = Recovery(queue.at(source))
        self._clock = source.clock
        self._holder = secrets.token_hex(8)
        self._whole: Rows | None = None
        self._blobs: set[str] = set()
        self._jobs = self._rows = 0
        self._here: MoveState
        self._away: MoveState

    @patience(UNLIMITED)
    def run(self) -> MoveReport:
        """Move, or continue a move that was interrupted."""
        began = self._clock.timer()
        held_ms, verified = 0.0, Verified()
        self._prepare()
        if self._away.phase == WATCHED:
            self._copy()
            self._catch_up("catch up")
            verified = self._verify()
            try:
                self._stop_claims()
                held_ms = self._switch()
            except BaseException:
                if self._away.phase == WATCHED:
                    self._resume_claims()
                raise
        else:  # it was interrupted while producers were refused
            held_ms = self._finish_switch(self._clock.timer())
        return MoveReport(self._jobs, self._rows, self._clock.timer() - began, held_ms, verified)

    def plan(self) -> MovePlan:
        """Return what there is to move. Writes nothing."""
        source, target = self._source, self._target
        source.ensure_schema()
        here = target.database.read(state_of(target.dialect, HERE)) if has_tables(target) else None
        if has_tables(target) and here is None and self._any_job(target):
            raise _not_empty(target)
        rows = source.database.read(source.dialect.shared("select status, count(*) from <job> group by status"))
        by_status = {str(status): int(str(count)) for status, count in rows}
        running = source.database.read(copying.count_unsettled(source.dialect))
        return MovePlan(sum(by_status.values()), by_status, running, here.copied if here is not None else 0)

    def abort(self) -> None:
        """End a move that was interrupted before the switch: the source continues, and the target is emptied."""
        source, target = self._source, self._target
        target.migrate()
        away = source.database.read(state_of(source.dialect, AWAY))
        here = target.database.read(state_of(target.dialect, HERE))
        if away is None and here is None:
            raise InvalidOption("--abort", f"no move from {source.database.name} has begun")
        if here is not None:
            if away is None or away.id != here.id:
                raise _other_move(source, target)
            if here.phase != FILLING:
                raise InvalidOption("--abort", f"the queue is in {target.database.name} already")
            target.database.write(lambda: copying.abandon(target.dialect, here))
        source.database.write(lambda: copying.give_up(source.dialect, away))

    # the two sides

    def _prepare(self) -> None:
        """Begin a move, or take over one that was interrupted."""
        source, target = self._source, self._target
        source.ensure_schema()
        target.migrate()
        away = source.database.read(state_of(source.dialect, AWAY))
        here = target.database.read(state_of(target.dialect, HERE))
        if here is None and self._any_job(target):
            raise _not_empty(target)
        if (away is None and here is not None) or (away and here and away.id != here.id):
            raise _other_move(source, target)
        if away is not None and away.phase == SEALING:
            interrupted = away
            away = source.database.write(lambda: copying.unseal(source.dialect, interrupted, self._holder))
        if away is None or away.phase == WATCHED:
            begun = MoveState(secrets.token_hex(8), self._holder, WATCHED)
            away = source.database.write(lambda: copying.watch(source.dialect, begun))
        elif here is None:
            raise _other_move(source, target)
        self._away = away
        taken: MoveState
        if here is None:
            taken = MoveState(away.id, self._holder, FILLING, upto=self._highest_id())
        else:
            taken = msgspec.structs.replace(here, holder=self._holder)
        if taken.phase == FILLING:
            target.database.write(lambda: copying.close(target.dialect, here, taken))
        elif taken.phase == OPENING:
            target.database.write(lambda: change_state(target.dialect, HERE, here, taken))
        self._here = taken

    def _highest_id(self) -> int:
        ((highest,),) = self._source.database.read(
            self._source.dialect.shared("select coalesce(max(id), 0) from <job>")
        )
        return int(str(highest))

    def _any_job(self, side: Backend) -> bool:
        return bool(side.database.read(side.dialect.shared("select id from <job> limit 1")))

    def _write(self, after: MoveState, make_plan: Callable[[], Plan[None]]) -> None:
        """Write to the target, with its next state."""
        target, before = self._target, self._here
        target.database.write(lambda: copying.writing(target.dialect, before, after, make_plan()))
        self._here = after

    # phases

    def _copy(self) -> None:
        """Copy all jobs that there were at the beginning. The next ones are read while some are written."""
        upto = self._here.upto
        with ThreadPoolExecutor(1, "rowcall-move") as reader:
            reading = reader.submit(self._read_after, self._here.copied)
            while self._here.copied < upto:
                rows = reading.result()
                copied = cast("int", rows["job"][-1][MOVED["job"].position("id")]) if rows else upto
                reading = reader.submit(self._read_after, copied)
                self._copy_blobs(rows)
                try:
                    self._write_up_to(copied, rows)
                except DataRefused:
                    self._write_one_by_one(rows)
                    self._write_up_to(copied, {})
                self._count(rows)
                self._report(Progress("copy", copied, upto))
        self._target.database.vacuum()  # a server knows nothing of the new rows yet

    def _write_up_to(self, copied: int, rows: Rows) -> None:
        after = msgspec.structs.replace(self._here, copied=copied)
        self._write(after, partial(copying.write_jobs, self._target.dialect, rows))

    def _write_one_by_one(self, rows: Rows) -> None:
        """Write jobs, and say which one the database refuses."""
        for job in rows["job"]:
            job_id = cast("int", job[MOVED["job"].position("id")])
            try:
                self._write_up_to(job_id, copying.rows_of(job_id, rows))
            except DataRefused as error:
                raise DataRefused(
                    f"job {job_id} does not fit: {error.problem}",
                    "Delete it, or correct it by SQL, and run the command again: what was copied is kept",
                ) from error

    def _read_after(self, after: int) -> Rows:
        source = self._source
        return source.database.read(
            copying.read_after(source.dialect, after, self._here.upto, JOBS_AT_ONCE), snapshot=True
        )

    def _catch_up(self, phase: str) -> int:
        """Copy what has changed until little is left. Return how many jobs were copied."""
        copied = 0
        while True:
            changed = self._copy_changes(CHANGES_AT_ONCE)
            copied += changed
            self._report(Progress(phase, copied))
            if changed < FEW_CHANGES:
                break
        self._copy_whole()
        return copied

    def _copy_changes(self, limit: int) -> int:
        """Copy the next jobs that have changed. Return how many changes there were."""
        source = self._source
        noted = source.database.read(copying.noted(source.dialect, limit))
        if not noted.ids:
            return 0
        rows = source.database.read(copying.read_jobs(source.dialect, noted.ids), snapshot=True)
        self._copy_blobs(rows)
        self._write(self._here, partial(copying.replace_jobs, self._target.dialect, noted.ids, rows))
        source.database.write(lambda: copying.forget_noted(source.dialect, noted.rows))
        self._count(rows)
        return len(noted.rows)

    def _copy_whole(self) -> None:
        """Copy the tables that are small."""
        source = self._source
        rows = source.database.read(copying.read_whole(source.dialect), snapshot=True)
        if rows != self._whole:
            self._write(self._here, partial(copying.replace_whole, self._target.dialect, self._whole, rows))
            self._whole = rows

    def _copy_blobs(self, rows: Rows) -> None:
        """Copy the large payloads and results before the rows that refer to them."""
        source, target = self._source.blobs.store, self._target.blobs.store
        position = MOVED["blob_ref"].position("digest")
        digests = {str(row[position]) for row in rows.get("blob_ref", ())} - self._blobs
        for digest in sorted(digests):
            if source is not target:
                try:
                    target.put(digest, source.get(digest))
                except KeyError:  # its job could not be read before the move, either
                    logger.warning("blob %s is not in the blob store of %s", digest, self._source.database.name)
            self._blobs.add(digest)

    def _count(self, rows: Rows) -> None:
        self._jobs += len(rows.get("job", ()))
        self._rows += sum(map(len, rows.values()))

    def _stop_claims(self) -> None:
        """Let no attempt start, and wait until none runs. If that takes too long, workers continue."""
        source = self._source
        source.database.write(lambda: source.dialect.ask(PAUSE, "queue", EVERY_QUEUE, ACTOR))
        deadline = self._clock.timer() + self._wait_seconds
        recover_at = self._clock.timer()
        while left := source.database.write(lambda: copying.settle_rest(source.dialect)):
            self._catch_up("stop claims")
            self._report(Progress("stop claims", note=f"{left} running"))
            if self._clock.timer() >= recover_at:
                self._recovery.check()
                recover_at = self._clock.timer() + RECOVER_SECONDS
            if self._clock.timer() > deadline:
                raise StoreUnavailable(
                    f"{counted(left, 'attempt')} still ran after {self._wait_seconds:g} s, so nothing was switched",
                    "Workers continue. Run the command again, with a longer --wait; what was copied is kept",
                )
            self._clock.sleep(LOOK_AGAIN_SECONDS)
        self._catch_up("stop claims")

    def _resume_claims(self) -> None:
        source = self._source
        source.database.write(lambda: copying.resume_claims(source.dialect))

    def _verify(self) -> Verified:
        def seen(done: int, of: int) -> None:
            self._report(Progress("verify", done, of))

        return verify(self._source, self._target, full=self._full, report=seen)

    def _switch(self) -> float:
        """Refuse producers, copy the rest, and open the target. Return for how many milliseconds they were refused."""
        source, sealed = self._source, msgspec.structs.replace(self._away, phase=SEALED)
        self._report(Progress("switch"))
        while True:
            began = self._clock.timer()
            if not source.database.write(lambda: copying.seal(source.dialect, self._away, sealed)):
                break
            self._stop_claims()
        self._away = sealed
        return self._finish_switch(began)

    def _finish_switch(self, began: float) -> float:
        """Copy what is left of a source that no one writes to any more, and open the target."""
        source, target = self._source, self._target
        if self._here.phase == FILLING:
            while self._copy_changes(CHANGES_AT_ONCE):
                pass
            self._copy_whole()
            numbers = source.database.read(copying.ids_to_give(source.dialect))
            target.database.write(lambda: copying.give_ids(target.dialect, numbers))
            before, opening = self._here, msgspec.structs.replace(self._here, phase=OPENING)
            target.database.write(lambda: change_state(target.dialect, HERE, before, opening))
            self._here = opening
        if self._here.phase == OPENING:
            opened = msgspec.structs.replace(self._here, phase=OPEN)
            target.database.write(lambda: copying.open_target(target.dialect, self._here, opened))
            self._here = opened
        held_ms = (self._clock.timer() - began) * 1000
        self._report(Progress("finish"))
        source.database.write(lambda: copying.leave(source.dialect))
        return held_ms


def _not_empty(target: Backend) -> InvalidOption:
    advice = "move to an empty database, or to another table_prefix"
    return InvalidOption("TO", f"{target.database.name} already holds jobs; {advice}")


def _other_move(source: Backend, target: Backend) -> InvalidOption:
    problem = f"{source.database.name} and {target.database.name} are not the two sides of one interrupted move"
    return InvalidOption("TO", f"{problem}: continue that one, or end it with --abort")
