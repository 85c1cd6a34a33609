"""A standby replaces the primary, while producers enqueue and workers run: what is lost, and what is not."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rowcall import Job, LeaseLost, Rowcall
from rowcall.testing import eventually
from rowcall.testing.process import PythonProcess
from tests.postgres.failover import WORKERS, Load, Pair, Tasks, acknowledged, replicated, start
from tests.postgres.support import ask
from tests.worker.support import Site

pytestmark = [pytest.mark.crash, pytest.mark.slow]

ROUNDS = range(int(os.environ.get("ROWCALL_TEST_FAILOVERS", "1")))
LOGGED_AHEAD = 32
"""How many values of a sequence a standby takes as used: jobs beyond these get ids that were given out before."""

WORKER_ROWS = "select count(*) from rowcall_worker"
LAST_ID = "select setval('rowcall_job_id_seq', %s)"


@pytest.fixture
def pair() -> Iterator[Pair]:
    with replicated() as pair:
        yield pair


def crash(pair: Pair) -> None:
    pair.primary.stop("immediate")


@pytest.mark.parametrize("_", ROUNDS)
@pytest.mark.parametrize("fails", [crash, Pair.demote_primary], ids=["crash", "read-only"])
def test_no_acknowledged_job_is_lost_with_a_synchronous_standby(
    pair: Pair, tmp_path: Path, fails: Callable[[Pair], None], _: int
) -> None:
    """A primary that is only demoted still answers, on the connections that exist and on others."""
    pair.replicate_synchronously()
    with ExitStack() as stack:
        load = Load(pair, tmp_path, stack)
        load.await_more()
        fails(pair)
        load.promote()
        load.end()
        load.check_notifications(WORKERS)
        there = load.check_rows()
    known = acknowledged(tmp_path)
    assert known <= there
    begun = Counter(tuple(line.split()) for line in Tasks(pair.url, tmp_path).site.lines)
    assert set(begun.values()) == {1}, "the same attempt began twice"
    print(f"{len(known)} acknowledged jobs, 0 lost; {len(there)} settled once; {len(begun)} attempts")


@pytest.mark.parametrize("_", ROUNDS)
def test_an_asynchronous_standby_loses_the_last_moments_and_no_attempt_ends_the_job_of_another(
    pair: Pair, tmp_path: Path, _: int
) -> None:
    with ExitStack() as stack:
        load = Load(pair, tmp_path, stack)
        apart = stack.enter_context(start("work", pair, tmp_path, "apart"))
        load.await_more()
        eventually(lambda: ask(pair.old, WORKER_ROWS) == [(WORKERS + 1,)], message="registered workers")
        before = acknowledged(tmp_path)
        pair.cut_off_standby()
        load.await_more(2 * LOGGED_AHEAD)
        tasks = Tasks(pair.old, tmp_path)
        stack.callback(tasks.jobs.close)
        ask(pair.old, LAST_ID, 1_000_000)  # far ahead of what is enqueued after the promotion
        old_claim = claimed_by_hand(tasks.jobs, "old-2")
        held = tasks.hold.using(queue="apart").enqueue("old-1")
        tasks.site.wait_for_line("start old-1")
        apart.send(signal.SIGSTOP)
        eventually(lambda: apart.is_stopped)
        crash(pair)
        load.promote()
        load.end()
        check_held_attempt(pair, load.jobs, tasks.site, held, apart)
        check_claim_by_hand(pair, load.jobs, old_claim)
        load.check_notifications(WORKERS)
        there = load.check_rows()
    known = acknowledged(tmp_path)
    lost = known - there
    assert lost, "the standby was not behind: this test shows nothing"
    assert lost.isdisjoint(before)
    begun = [line.split() for line in tasks.site.lines if not line.startswith(("start", "end"))]
    texts_of_ids = Counter(job_id for job_id, _ in {(job_id, text) for text, job_id, _ in begun})
    ids_again = sum(count > 1 for count in texts_of_ids.values())
    assert ids_again, "no id was given out again: this test shows nothing"
    print(f"{len(known)} acknowledged jobs, {len(lost)} lost, of the last moments; {ids_again} ids given out again")


def check_held_attempt(pair: Pair, jobs: Rowcall, site: Site, held: Job, worker: PythonProcess) -> None:
    """Its job is lost, and another job has the id and the lease, when the handler ends."""
    ask(pair.new, LAST_ID, held.id - 1)
    claimed = claimed_by_hand(jobs, "new-1")
    assert (claimed.id, claimed.lease) == (held.id, 1)
    site.open("old-1")
    worker.send(signal.SIGCONT)
    site.wait_for_line("end old-1")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0, worker.output  # it has tried to settle the attempt
    assert (jobs.get(claimed.id).status, jobs.get(claimed.id).worker) == ("running", "me")
    check_complete(jobs, claimed, "new-1")


def check_claim_by_hand(pair: Pair, jobs: Rowcall, old: Job) -> None:
    """A claim of a lost job has the id and the lease of another claim, and only its holder differs."""
    ask(pair.new, LAST_ID, old.id - 1)
    claimed = claimed_by_hand(jobs, "new-2")
    assert (claimed.id, claimed.lease) == (old.id, old.lease)
    for call in (jobs.heartbeat, jobs.release, jobs.complete):
        with pytest.raises(LeaseLost):
            call(old)
    with pytest.raises(LeaseLost):
        jobs.fail(old, "TEST:OLD")
    check_complete(jobs, claimed, "new-2")


def claimed_by_hand(jobs: Rowcall, text: str) -> Job:
    jobs.enqueue("hold", {"text": text}, queue="by hand")
    [claimed] = jobs.claim("me", queues=["by hand"])
    return claimed


def check_complete(jobs: Rowcall, claimed: Job, text: str) -> None:
    jobs.complete(claimed, text)
    assert [(attempt.status, attempt.worker) for attempt in jobs.attempts(claimed.id)] == [("succeeded", "me")]
