"""A database in which things go wrong, one mishap after the other, and what each has to leave behind."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg

from rowcall import ErrorGroup, InProgress, Job, Kept, Rowcall, Stats
from rowcall.base.times import milliseconds_of
from rowcall.testing import FakeClock

HOUR = 3600.0
DAY = 24 * HOUR


class Scene(NamedTuple):
    jobs: Rowcall
    clock: FakeClock
    url: str
    folder: Path

    def enqueue(self, name: str, payload: dict[str, object] | None = None, **options: object) -> Job:
        """A job in a separate queue, so that no other test claims it by mistake."""
        return self.jobs.enqueue(name, payload or {}, **{"queue": name, **options})  # type: ignore[arg-type]

    def claim(self, name: str, worker: str = "by-hand", lease: float = 30 * DAY) -> Job:
        [job] = self.jobs.claim(worker, queues=[name], lease=lease)
        return job

    def at(self, seconds_ago: float) -> object:
        """A time as the database keeps it."""
        at = self.clock.now() - timedelta(seconds=seconds_ago)
        return milliseconds_of(at) if self.url.startswith("sqlite") else at

    def sql(self, statement: str, *values: object) -> None:
        """As a shell would do it."""
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.folder / "app.db", isolation_level=None)) as file:
                file.execute(statement, values)
            return
        with psycopg.connect(self.url, autocommit=True) as server:
            server.execute(re.sub(r"\?", "%s", statement).encode(), values)


class Answers(NamedTuple):
    stats: Stats
    stuck: dict[str, InProgress]
    retries: dict[str, dict[int, int]]
    errors: dict[str, ErrorGroup]
    kept: dict[tuple[str, str], Kept]


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What the answers must say about the jobs of one mishap; None says nothing."""

    status: str | None
    attempts: int | None = None
    code: str | None = None
    detail: str | None = None
    worker: str | None = None
    host: str | None = None
    doing: str | None = None
    silent_for: float | None = None
    worker_silent_for: float | None = None
    waits_for: float | None = None
    prunable: bool | None = None
    keep: float | None = None

    def look_for(self, name: str, answers: Answers) -> None:
        counts = answers.stats.by_type.get(name, {})
        assert {status: count for status, count in counts.items() if count} == ({self.status: 1} if self.status else {})
        if self.status is None:
            assert name not in answers.retries or not any(answers.retries[name].values())
            return
        if self.attempts is not None:
            assert answers.retries[name] == {self.attempts: 1}
        assert [code for code, group in answers.errors.items() if name in group.types] == (
            [self.code] if self.status == "failed" else []
        )
        self._look_at_error(name, answers)
        self._look_at_running(name, answers)
        if self.waits_for is not None:
            assert answers.stats.oldest_waiting_by_queue[name] >= self.waits_for
        if self.prunable is not None:
            kept = answers.kept[self.status, name]
            assert (kept.jobs, kept.prunable, kept.keep) == (1, int(self.prunable), self.keep)

    def _look_at_error(self, name: str, answers: Answers) -> None:
        if self.code is None:
            return
        group = answers.errors[self.code]
        assert group.types[name] == 1
        assert group.count == sum(group.types.values())
        assert group.first_at is not None
        assert group.last_at is not None
        assert group.first_at <= group.last_at
        if self.detail is not None and group.count == 1:
            assert self.detail in (group.sample or "")

    def _look_at_running(self, name: str, answers: Answers) -> None:
        assert (name in answers.stuck) == (self.status == "running")
        if self.status != "running":
            return
        job = answers.stuck[name]
        assert (job.worker, job.host, job.progress_message) == (self.worker, self.host, self.doing)
        assert self.silent_for is not None
        assert self.silent_for <= job.silent_for < self.silent_for + 60
        if self.worker_silent_for is None:
            assert job.worker_silent_for is None
        else:
            assert job.worker_silent_for is not None
            assert self.worker_silent_for <= job.worker_silent_for < self.worker_silent_for + 60


Happening = Callable[[Scene], Iterator[None]]


class Mishap(NamedTuple):
    name: str
    happens: Happening
    trace: Trace


CATALOGUE: list[Mishap] = []


def mishap(status: str | None, **trace: object) -> Callable[[Happening], Happening]:
    """Adds to the catalogue. Whenever the function yields, workers come by, and two hours pass."""

    def add(happens: Happening) -> Happening:
        CATALOGUE.append(Mishap(happens.__name__, happens, Trace(status=status, **trace)))  # type: ignore[arg-type]
        return happens

    return add


def failing(name: str, end: Callable[[], object], code: str, detail: str = "") -> None:
    """A task that ends like this, at its only attempt."""

    def happens(scene: Scene) -> Iterator[None]:
        scene.jobs.task(name=name, max_attempts=1)(end)
        scene.enqueue(name)
        yield

    CATALOGUE.append(Mishap(name, happens, Trace(status="failed", attempts=1, code=code, detail=detail)))


def let_it_all_go_wrong(scene: Scene) -> None:
    going = [mishap.happens(scene) for mishap in CATALOGUE]
    while going:
        going = [one for one in going if next(one, "over") is None]
        scene.jobs.drain()
        scene.clock.advance(2 * HOUR)


def ask(jobs: Rowcall) -> Answers:
    return Answers(
        jobs.stats(window=DAY),
        {job.type: job for job in jobs.stuck(limit=100)},
        jobs.retries().by_type,
        {group.error_code: group for group in jobs.top_errors(limit=100)},
        {(kept.status, kept.type): kept for kept in jobs.retention().kept},
    )
