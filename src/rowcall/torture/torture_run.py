"""A torture run: start the processes, let faults happen, let all come to rest, check, and remove everything."""

from __future__ import annotations

import contextlib
import heapq
import os
import platform
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from rowcall.app import Rowcall
from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.config import VERSION
from rowcall.domain.errors import StoreUnavailable
from rowcall.torture import small_disk
from rowcall.torture.arena import Arena, ServerArena, SqliteArena, arena_of
from rowcall.torture.certificate import Certificate, TortureFinding, Versions
from rowcall.torture.checker import Checker
from rowcall.torture.fault_plan import MEAN_GAP_SECONDS, Fault, FaultKind, plan
from rowcall.torture.fleet import LEASE_SECONDS, Fleet
from rowcall.torture.proxy import CuttingProxy
from rowcall.torture.workload import opened

PRODUCERS = 2
STOP_SECONDS = 1.6 * LEASE_SECONDS
TICK_SECONDS, LOOK_SECONDS = 0.05, 0.5
STUCK_SECONDS = 60.0
"""Without any progress, in which a healthy worker has nothing else to do."""
SMALL_DISK_JOBS, SMALL_DISK_PER_SECOND = 20_000, 100
RESTART_SECONDS = 60.0
MOST_TIMES_SECONDS = 5
"""How often the time is passed, at most, until the jobs that were asked for are enqueued."""
UNFINISHED = ("blocked", "scheduled", "pending", "running")
_ANYWHERE = (
    *(FaultKind.KILL_WORKER, FaultKind.KILL_PRODUCER, FaultKind.END_WORKER, FaultKind.STOP_WORKER),
    *(FaultKind.PAUSE_WORKER, FaultKind.LOCK, FaultKind.SNAPSHOT),
)
_ON_SERVERS = (FaultKind.CUT, FaultKind.LOSE_REPLY, FaultKind.FREEZE)


class TortureOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to do. `faults`: about this many. `restart` is a shell command that restarts the server."""

    url: str
    prefix: str
    seconds: float
    seed: int
    workers: int = 3
    jobs: int | None = None
    faults: int | None = None
    restart: str | None = None


class TortureProgress(NamedTuple):
    phase: str
    seconds: float
    enqueued: int
    done: int
    unfinished: int
    faults: Counter[str]


Show = Callable[[TortureProgress], None]


class Stage:
    """A database with its processes."""

    def __init__(self, arena: Arena, folder: Path, urls: list[str], sizes: tuple[int, int], per_second: float) -> None:
        folder.mkdir()
        self.arena, self.folder = arena, folder
        self.jobs = opened(arena.url, arena.prefix)
        self.jobs.migrate()
        self.fleet = Fleet(arena, folder, urls, *sizes)
        self.fleet.per_second = per_second

    def counts(self) -> tuple[int, int] | None:
        """Return how many jobs have ended and how many have not, or None while the database is away."""
        try:
            statuses = self.jobs.stats().by_status
        except StoreUnavailable:
            return None
        unfinished = sum(statuses.get(status, 0) for status in UNFINISHED)
        return sum(statuses.values()) - unfinished, unfinished

    def close(self) -> None:
        self.fleet.close()
        self.jobs.close()


class TortureRun:
    def __init__(self, order: TortureOrder, show: Show) -> None:
        self._order, self._show = order, show
        self._stack = contextlib.ExitStack()
        self._faults: Counter[str] = Counter()
        self._undo: list[tuple[float, int, Callable[[], object]]] = []
        self._not_possible: dict[str, str] = {}
        self._stages: list[Stage] = []
        self._phase = "starting"
        self._counts = (0, 0)
        self._looked_at = self._started_at = SYSTEM_CLOCK.timer()
        self._enqueued = 0

    def run(self) -> Certificate:
        arena = arena_of(self._order.url, self._order.prefix)
        _require_empty(arena)
        with self._stack:
            self._stack.callback(arena.remove)
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rowcall-torture-")))
            self._start(arena, folder)
            self._warm_up()
            self._rage()
            problems = self._calm_down()
            return self._check(arena, problems)

    def _start(self, arena: Arena, folder: Path) -> None:
        self._proxy = None
        urls = [arena.url]
        if isinstance(arena, ServerArena):
            proxy = CuttingProxy(arena.addresses(), arena.url_at)
            self._proxy = self._stack.enter_context(contextlib.closing(proxy))
            urls.append(self._proxy.url)
        per_second = 0.0 if self._order.jobs is None else self._order.jobs / self._order.seconds
        self._add_stage(Stage(arena, folder / "main", urls, (self._order.workers, PRODUCERS), per_second))
        self._disk = folder / "disk"
        if isinstance(arena, SqliteArena) and (reason := self._add_small_disk(folder)):
            self._not_possible[FaultKind.FULL_DISK] = reason
        if isinstance(arena, ServerArena):
            self._not_possible[FaultKind.FULL_DISK] = "the disk of a server is not this command's to fill"
            if self._order.restart is None:
                self._not_possible[FaultKind.RESTART] = "needs --restart COMMAND"

    def _add_stage(self, stage: Stage) -> None:
        self._stages.append(stage)
        self._stack.callback(stage.close)

    def _add_small_disk(self, folder: Path) -> str | None:
        """Start a second stage on a small file system. Return why not, if it is not possible."""
        if reason := small_disk.why_not():
            return reason
        if not self._stack.enter_context(small_disk.mounted(self._disk)):
            return "mounting a tmpfs is not allowed"
        arena = SqliteArena(str(self._disk / "torture.db"), self._order.prefix)
        per_second = min(SMALL_DISK_PER_SECOND, SMALL_DISK_JOBS / self._order.seconds)
        self._add_stage(Stage(arena, folder / "small", [arena.url], (1, 1), per_second))
        return None

    def _warm_up(self) -> None:
        """Wait until all processes work: faults that meet no work prove nothing."""
        until = SYSTEM_CLOCK.timer() + STUCK_SECONDS
        for stage in self._stages:
            stage.fleet.fill_up()
        while not all(stage.fleet.require_begun() for stage in self._stages):
            if SYSTEM_CLOCK.timer() > until:
                raise StoreUnavailable(f"not all processes work after {STUCK_SECONDS:g} s", "Is the database slow?")
            self._look()
            SYSTEM_CLOCK.sleep(TICK_SECONDS)

    def _kinds(self) -> set[FaultKind]:
        kinds = set(_ANYWHERE)
        if self._proxy is not None:
            kinds |= {*_ON_SERVERS, *([FaultKind.RESTART] if self._order.restart else [])}
        else:
            kinds |= {FaultKind.CHECKPOINT, *([FaultKind.FULL_DISK] if len(self._stages) > 1 else [])}
        return kinds

    def _rage(self) -> None:
        """Let the faults of the plan happen, until the time is over and all jobs are enqueued."""
        self._phase = "faults"
        faults = plan(self._order.seed, self._kinds())
        fault = next(faults)
        count, seconds = self._order.faults, self._order.seconds
        stretch = 1.0 if count is None else seconds / (count * MEAN_GAP_SECONDS)
        began = due_at = SYSTEM_CLOCK.timer()
        while (passed := SYSTEM_CLOCK.timer() - began) < self._order.seconds or (
            self._enqueued < (self._order.jobs or 0) and passed < MOST_TIMES_SECONDS * self._order.seconds
        ):
            self._tick()
            if SYSTEM_CLOCK.timer() >= due_at + fault.after_seconds * stretch:
                due_at = SYSTEM_CLOCK.timer()
                if self._happens(fault):
                    self._faults[fault.kind] += 1
                fault = next(faults)

    def _tick(self) -> None:
        now = SYSTEM_CLOCK.timer()
        while self._undo and self._undo[0][0] <= now:
            heapq.heappop(self._undo)[2]()
        for stage in self._stages:
            stage.fleet.fill_up()
        if now >= self._looked_at + LOOK_SECONDS:
            self._look()
        SYSTEM_CLOCK.sleep(TICK_SECONDS)

    def _look(self) -> None:
        counts = [stage.counts() for stage in self._stages]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts):
            self._counts = sum(done for done, _ in known), sum(unfinished for _, unfinished in known)
        done, unfinished = self._counts
        seconds = SYSTEM_CLOCK.timer() - self._started_at
        self._enqueued = done + unfinished
        self._show(TortureProgress(self._phase, seconds, done + unfinished, done, unfinished, self._faults))
        self._looked_at = SYSTEM_CLOCK.timer()

    def _later(self, seconds: float, undo: Callable[[], object]) -> None:
        heapq.heappush(self._undo, (SYSTEM_CLOCK.timer() + seconds, len(self._undo) + self._faults.total(), undo))

    def _happens(self, fault: Fault) -> bool:
        """Let a fault happen. Return whether it could: there may be no one left to stop."""
        fleet, chance = self._stages[0].fleet, random.Random(fault.choice)
        match fault.kind:
            case FaultKind.KILL_WORKER | FaultKind.KILL_PRODUCER | FaultKind.END_WORKER:
                role = "producer" if fault.kind is FaultKind.KILL_PRODUCER else "worker"
                child = fleet.pick(role, fault.choice)
                if child is not None and fault.kind is FaultKind.END_WORKER:
                    fleet.end_worker(child)
                elif child is not None:
                    child.kill()
                return child is not None
            case FaultKind.STOP_WORKER | FaultKind.PAUSE_WORKER:
                return self._stop(fleet, fault)
            case FaultKind.LOCK | FaultKind.SNAPSHOT:
                names = ("file",) if self._proxy is None else ("table", "rows", "claims")
                fleet.lock(
                    "snapshot" if fault.kind is FaultKind.SNAPSHOT else chance.choice(names), fault.lasts_seconds
                )
            case FaultKind.CHECKPOINT:
                arena = self._stages[0].arena
                assert isinstance(arena, SqliteArena)
                arena.checkpoint()
            case FaultKind.FULL_DISK:
                small_disk.fill(self._disk)
                self._later(fault.lasts_seconds, lambda: small_disk.make_room(self._disk))
            case FaultKind.RESTART:
                assert self._order.restart is not None
                _restart(self._order.restart)
            case _:
                return self._disturb(fault, chance)
        return True

    def _disturb(self, fault: Fault, chance: random.Random) -> bool:
        assert self._proxy is not None
        if fault.kind is FaultKind.FREEZE:
            self._proxy.freeze()
            self._later(fault.lasts_seconds, self._proxy.thaw)
            return True
        disturb = self._proxy.cut if fault.kind is FaultKind.CUT else self._proxy.lose_replies
        return disturb(chance, chance.randint(1, 6)) > 0

    def _stop(self, fleet: Fleet, fault: Fault) -> bool:
        """Stop a worker, unless another one is stopped: there must be someone to recover its jobs."""
        child = fleet.pick("worker", fault.choice)
        if child is None or any(other.is_stopped for other in fleet.running["worker"]):
            return False
        fleet.stop(child)
        seconds = STOP_SECONDS if fault.kind is FaultKind.STOP_WORKER else fault.lasts_seconds
        self._later(seconds, lambda: fleet.resume(child))
        return True

    def _calm_down(self) -> list[str]:
        """End the faults and the producers. Return what is wrong with how the workers end."""
        self._phase = "calm"
        while self._undo:
            heapq.heappop(self._undo)[2]()
        for stage in self._stages:
            stage.fleet.end_producers()
        best, progress_at = None, SYSTEM_CLOCK.timer()
        while not self._is_calm():
            self._tick()
            if self._counts != best:
                best, progress_at = self._counts, SYSTEM_CLOCK.timer()
            if SYSTEM_CLOCK.timer() - progress_at > STUCK_SECONDS:
                break  # the checker says what is stuck
        problems = []
        for stage in self._stages:
            problems += [*stage.fleet.end_workers(), *stage.fleet.crashed, *stage.fleet.unexpected()]
        return problems

    def _is_calm(self) -> bool:
        """Return whether no job is left, and the workers that were killed are no longer listed."""
        if self._counts[1]:
            return False
        for stage in self._stages:
            counts = stage.counts()
            if counts is None or counts[1]:
                return False
            try:
                listed = stage.jobs.workers()
            except StoreUnavailable:
                return False
            if len(listed) > len(stage.fleet.running["worker"]):
                return False
        return True

    def _check(self, arena: Arena, problems: list[str]) -> Certificate:
        self._phase = "check"
        self._look()
        findings = [TortureFinding("process", len(problems), problems[:5])] if problems else []
        checkers = [Checker(stage.arena, stage.folder) for stage in self._stages]
        for stage, checker in zip(self._stages, checkers, strict=True):
            findings += [*checker.check(), *wrong_counts(stage.jobs, stage.arena)]
        counts = [checker.counts() for checker in checkers]
        total = {name: sum(getattr(count, name) for count in counts) for name in counts[0].__struct_fields__}
        return Certificate(
            verdict="failed" if findings else "passed",
            command=self._command(),
            seed=self._order.seed,
            versions=_versions(arena),
            seconds=round(SYSTEM_CLOCK.timer() - self._started_at, 1),
            jobs=type(counts[0])(**total),
            faults=dict(sorted(self._faults.items())),
            not_possible=self._not_possible,
            findings=findings,
        )

    def _command(self) -> str:
        order = self._order
        words = f"rowcall torture URL --seconds {order.seconds:g} --seed {order.seed} --workers {order.workers}"
        words += "" if order.jobs is None else f" --jobs {order.jobs}"
        words += "" if order.faults is None else f" --faults {order.faults}"
        return words + ("" if order.restart is None else " --restart COMMAND")


def wrong_counts(jobs: Rowcall, arena: Arena) -> Iterator[TortureFinding]:
    """Compare the counts that users see with the rows, and name the groups of finished jobs that differ."""
    shown = {str(status): count for status, count in jobs.stats().by_status.items() if count}
    rows = dict(arena.rows("select status, count(*) from <job> group by status"))
    if shown == rows:
        return
    differences: Counter[tuple[str, ...]] = Counter()
    for source, number in (
        ("<total>", "sum(jobs)"),
        ("<tally> where status is not null", "sum(jobs)"),
        ("<job> where finished_at is not null", "-count(*)"),
    ):
        group = "status, type, coalesce(error_code, ''), attempt"
        for *names, count in arena.rows(f"select {group}, {number} from {source} group by {group}"):
            differences[tuple(map(str, names))] += int(count)
    wrong = [f"{count:+} of {', '.join(filter(None, names))}" for names, count in differences.items() if count]
    yield TortureFinding("wrong counts", 1, [f"stats() says {shown}, and the rows are {rows}", *wrong[:4]])


def _require_empty(arena: Arena) -> None:
    if tables := arena.tables():
        raise StoreUnavailable(
            f"{arena.name} has tables named {arena.prefix}*, such as {tables[0]}",
            "Give another --prefix; if they are those of a run that was killed, drop them first",
        )


def _restart(command: str) -> None:
    try:
        subprocess.run(
            ["/bin/sh", "-c", command],
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=RESTART_SECONDS,
            check=True,
        )
    except subprocess.SubprocessError as error:
        raise StoreUnavailable(f"--restart: {error}", "Try the command alone") from error


def _versions(arena: Arena) -> Versions:
    host = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    database = f"{arena.kind} {arena.version()}"
    return Versions(rowcall=VERSION, python=platform.python_version(), database=database, host=host)
