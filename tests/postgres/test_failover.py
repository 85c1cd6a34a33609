"""A standby takes the place of the primary, while producers enqueue and workers run: what is lost, and what is not."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from tests.postgres.failover import Pair, Tasks, acknowledged, replicated, start
from tests.postgres.support import ask, unfinished
from tests.worker.support import ended

pytestmark = [pytest.mark.crash, pytest.mark.slow]

ROUNDS = range(int(os.environ.get("ROWCALL_TEST_FAILOVERS", "1")))
PRODUCERS, WORKERS = 2, 2
LOAD = 100
LONGEST_SECONDS = 10.0
LOGGED_AHEAD = 32
"""How many values of a sequence a standby takes as used: jobs beyond these get ids that were given out before."""

SUCCEEDED = "select count(*) from rowcall_job where status = 'succeeded'"
LISTENING = "select count(*) from rowcall_worker where listening"
SESSIONS = "select count(*) from pg_stat_activity where query like 'listen %' or query = 'show transaction_read_only'"
TEXTS = "select payload ->> 'text' from rowcall_job"
ENDED_BY_ANOTHER = "select id from rowcall_job where result::jsonb is distinct from payload::jsonb -> 'text'"
TIMES_SETTLED = "select count(*) from settled group by job_id"


@pytest.fixture
def pair() -> Iterator[Pair]:
    with replicated() as pair:
        yield pair


class Load:
    """Producers and workers, from before the promotion until all that they enqueued has ended."""

    def __init__(self, pair: Pair, folder: Path, stack: ExitStack) -> None:
        self._pair, self._folder = pair, folder
        self.jobs = stack.enter_context(Rowcall(pair.url))
        self._workers = [stack.enter_context(start("work", pair, folder, "default")) for _ in range(WORKERS)]
        self._producers = [stack.enter_context(start("produce", pair, folder, f"p{n}")) for n in range(PRODUCERS)]

    def await_more(self, count: int = LOAD) -> None:
        wanted = len(acknowledged(self._folder)) + count
        eventually(lambda: len(acknowledged(self._folder)) >= wanted, message=f"{wanted} acknowledged jobs")

    def promote(self) -> None:
        """The workers go on by themselves, and producers too."""
        self._pair.promote_standby()
        promoted_at, before = time.monotonic(), ask(self._pair.new, SUCCEEDED)
        eventually(lambda: ask(self._pair.new, SUCCEEDED) > before, message="a job that ends")
        seconds = time.monotonic() - promoted_at
        print(f"workers went on {seconds:.2f} s after the promotion")
        assert seconds < LONGEST_SECONDS
        self.await_more()

    def end(self) -> None:
        for producer in self._producers:
            producer.close()
        eventually(lambda: unfinished(self.jobs) == 0, within=60, message="the end of all jobs")
        for worker in self._workers:
            assert worker.alive, worker.output

    def check_notifications(self) -> None:
        """The workers listen to the new primary, and a job of another process wakes one."""
        eventually(lambda: ask(self._pair.new, LISTENING) == [(WORKERS,)], message="workers that listen")
        eventually(lambda: ask(self._pair.new, SESSIONS) == [(WORKERS,)], message="their sessions")
        enqueued_at = time.monotonic()
        with Rowcall(self._pair.new) as elsewhere:
            assert ended(elsewhere, elsewhere.enqueue("carry", {"text": "after-1"})).status == "succeeded"
        print(f"an idle worker ended a job {(time.monotonic() - enqueued_at) * 1000:.0f} ms after its enqueue began")

    def check_rows(self) -> set[str]:
        """Return the texts of all jobs that are there. Each was settled once, by who ran it."""
        assert set(ask(self._pair.new, TIMES_SETTLED)) == {(1,)}
        assert ask(self._pair.new, ENDED_BY_ANOTHER) == []
        return {text for (text,) in ask(self._pair.new, TEXTS)}


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
        load.check_notifications()
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
        load.await_more()
        before = acknowledged(tmp_path)
        pair.cut_off_standby()
        stack.enter_context(start("work", pair, tmp_path, "apart"))
        tasks = Tasks(pair.url, tmp_path)
        stack.callback(tasks.jobs.close)
        load.await_more(3 * LOGGED_AHEAD)
        held = tasks.hold.using(queue="apart").enqueue("old")
        tasks.site.wait_for_line("start old")
        crash(pair)
        load.promote()
        load.end()
        there = load.check_rows()
        known = acknowledged(tmp_path)
        lost = known - there
        assert lost, "the standby was not behind: this test shows nothing"
        assert lost.isdisjoint(before)
        print(len(known), len(lost), held.id)
