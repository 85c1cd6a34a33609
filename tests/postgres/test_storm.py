"""Workers are killed, connections cut and the server crashed, all at once, and still every job is done exactly once."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from tests.postgres.support import ATTEMPTS, BOOKKEEPING, PostgresSite, ask, pid_of
from tests.worker.program import declare_counted
from tests.worker.support import FINISHED

pytestmark = [pytest.mark.crash, pytest.mark.slow]

JOBS = int(os.environ.get("ROWCALL_TEST_STORM_JOBS", "1500"))
WORKERS = 4
CUT_EVERY_SECONDS = 0.1
MOST_CUT = 3
CUTS_PER_KILL = 3
ROUNDS = 15
RESTART_IN = (5, 10)
PATIENCE_SECONDS = 90

# a part of the jobs in each round, so that they cannot all be done before the last crash of the server
RELEASE = f"""
update rowcall_job set run_at = created_at where id in
  (select id from rowcall_job where status = 'scheduled' and attempt = 0 limit {-(-JOBS // ROUNDS)})
"""


class Began(NamedTuple):
    """A line that a handler wrote as the first thing it did."""

    job_id: int
    attempt: int
    pid: int


class Tried(NamedTuple):
    """An attempt as stored in the database."""

    job_id: int
    attempt: int
    status: str
    pid: int


class Storm:
    """Cuts some connections every 100 ms in which jobs end, and kills a worker every third time, until all is done."""

    def __init__(self, site: PostgresSite, server: PostgresServer, seed: int) -> None:
        self._site = site
        self._server = server
        self._chance = random.Random(seed)
        self._workers = [site.start_worker(concurrency=50) for _ in range(WORKERS)]
        self.killed: set[int] = set()
        self.cut = 0

    def rage(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        rounds, before = 0, -1
        try:
            while (done := self._done()) < JOBS:
                assert time.monotonic() < deadline, self._state()
                threading.Event().wait(CUT_EVERY_SECONDS)
                self._replace_unlucky()
                if done == before:  # on a busy machine, nothing would ever be done between two cuts
                    continue
                rounds, before = rounds + 1, done
                if rounds in RESTART_IN:
                    self._server.restart("immediate")
                ask(self._site.url, RELEASE)
                self._cut_some()
                if rounds % CUTS_PER_KILL == 0:
                    self._kill_one()
        finally:
            for worker in self._workers:
                worker.close()

    def _done(self) -> int:
        try:
            counts = self._site.jobs.stats().by_status
        except StoreUnavailable:
            return 0  # our own connection was cut, too
        return sum(counts[status] for status in FINISHED)

    def _cut_some(self) -> None:
        database = database_of(self._site.url)
        self.cut += self._server.terminate_connections(database, at_most=self._chance.randint(1, MOST_CUT))

    def _kill_one(self) -> None:
        registered = self._registered()
        candidates = [index for index, worker in enumerate(self._workers) if worker.pid in registered]
        if candidates:  # let each get going first
            index = self._chance.choice(candidates)
            self.killed.add(self._workers[index].pid)
            self._replace(index)

    def _replace_unlucky(self) -> None:
        """Restart, as a process manager would, the workers that could not start because the server was away."""
        for index, worker in enumerate(self._workers):
            if not worker.alive:
                assert "connection" in worker.output, worker.output
                self._replace(index)

    def _replace(self, index: int) -> None:
        self._workers[index].close()
        self._workers[index] = self._site.start_worker(concurrency=50)

    def _registered(self) -> set[int]:
        try:
            return {worker.pid for worker in self._site.jobs.workers()}
        except StoreUnavailable:
            return set()

    def _state(self) -> object:
        return self._site.jobs.stats(), [worker.output for worker in self._workers]


@pytest.mark.timeout(PATIENCE_SECONDS + 60)
def test_every_job_succeeds_and_none_is_settled_twice(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer
) -> None:
    ask(site.url, BOOKKEEPING)
    made = declare_counted(jobs, site).using(max_attempts=1000, delay=3600).enqueue_many([{}] * JOBS)
    storm = Storm(site, server, seed=3)
    storm.rage()

    assert storm.killed
    assert storm.cut
    assert jobs.stats().by_status["succeeded"] == JOBS
    settled = ask(site.url, "select job_id, lease from settled")
    assert Counter(job_id for job_id, _ in settled) == Counter(job.id for job in made)
    # each end takes another claim
    taken = Counter(ask(site.url, "select job_id, lease from taken"))
    assert set(taken.values()) == {1}
    assert {(job_id, lease - 1) for job_id, lease in settled} <= taken.keys()
    check_accounts(site, storm.killed)


def check_accounts(site: PostgresSite, killed: set[int]) -> None:
    """Every attempt that began is in the database, once, and the lost ones are those of killed workers."""
    lines = [Began(*map(int, line.split())) for line in site.lines]
    tried = [Tried(job, attempt, status, pid_of(worker)) for job, attempt, status, worker in ask(site.url, ATTEMPTS)]
    by_job: dict[int, list[Tried]] = defaultdict(list)
    for one in tried:
        by_job[one.job_id].append(one)
    assert len(by_job) == JOBS
    for job_id, history in by_job.items():
        assert [one.attempt for one in history] == list(range(1, len(history) + 1)), (job_id, history)
        assert [one.status for one in history] == ["lost"] * (len(history) - 1) + ["succeeded"], (job_id, history)
    assert {one.pid for one in tried if one.status == "lost"} <= killed

    began_twice = [pair for pair, times in Counter((line[:2]) for line in lines).items() if times > 1]
    assert began_twice == []
    recorded = {Began(one.job_id, one.attempt, one.pid) for one in tried}
    assert set(lines) <= recorded
    assert {Began(one.job_id, one.attempt, one.pid) for one in tried if one.status == "succeeded"} <= set(lines)
