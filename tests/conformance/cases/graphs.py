"""Whole graphs of jobs, written at once; and what is kept because another job still needs it."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from rowcall import Chain, Context, InvalidOption, Job, Node, Retention, Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations.enqueue import bind
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.counted import statements_of
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store

DAY = timedelta(days=1)


def _id_of(one: Node | Job | Chain) -> int:
    written = one.job if isinstance(one, Node) else one
    assert written is not None
    return written.id


class TestGraphs:
    def test_fan_out_and_fan_in(self, jobs: Rowcall) -> None:
        order: list[int] = []

        @jobs.task
        def part(ctx: Context, number: int) -> int:
            order.append(ctx.job.id)
            return number

        @jobs.task
        def whole(ctx: Context) -> list[object]:
            order.append(ctx.job.id)
            return ctx.blockers

        with jobs.flow() as flow:
            root = flow.add(part.bind(0))
            middle = [flow.add(part.bind(number), after=root) for number in range(1, 11)]
            end = flow.add(whole.bind(), after=middle)
            assert root.job is None
        assert root.job is not None
        assert end.job is not None
        assert [root.job.status, end.job.status] == [Status.PENDING, Status.BLOCKED]
        assert jobs.drain().succeeded == 12
        assert jobs.get(end.job.id).result == list(range(1, 11))
        assert (order[0], order[-1]) == (root.job.id, end.job.id)

    def test_nodes_jobs_and_chains_can_be_waited_for_together(self, jobs: Rowcall) -> None:
        @jobs.task
        def give(word: str) -> str:
            return word

        @jobs.task
        def gather(ctx: Context) -> list[object]:
            return ctx.blockers

        before, chain = give.enqueue("job"), jobs.start_chain([give.bind("x"), give.bind("chain")])
        flow = jobs.flow()
        node = flow.add(give.bind("node"))
        steps = flow.add_chain([give.bind("y"), give.bind("steps")], after=node)
        end = flow.add(gather.using(after=before).bind(), after=[steps, node, chain])
        written = flow.enqueue()
        assert end.job == written[-1] == jobs.get(written[-1].id)
        assert [job == jobs.get(job.id) for job in written] == [True] * 4
        assert [(job.chain_id, job.chain_index) for job in written] == [
            (None, None),
            (written[1].id, 0),
            (written[1].id, 1),
            (None, None),
        ]
        jobs.drain()
        assert jobs.get(written[-1].id).result == ["job", "steps", "node", "chain"]

    def test_results_come_in_the_order_of_after_and_once_each(self, jobs: Rowcall) -> None:
        @jobs.task
        def give(word: str) -> str:
            return word

        @jobs.task
        async def gather(ctx: Context) -> list[object]:
            return await ctx.ablockers()

        orders = [
            *permutations(("job", "chain", "node", "steps")),
            ("job", "node", "job", "steps", "chain", "node"),
            ("steps", "steps", "job"),
        ]
        job, chain = give.enqueue("job"), jobs.start_chain([give.bind("x"), give.bind("chain")])
        with jobs.flow() as flow:
            node = flow.add(give.bind("node"))
            steps = flow.add_chain([give.bind("y"), give.bind("steps")])
            given: dict[str, Node | Job | Chain] = {"job": job, "chain": chain, "node": node, "steps": steps}
            ends = [flow.add(gather.bind(), after=[given[word] for word in order]) for order in orders]
        ids = {word: _id_of(one) for word, one in given.items()}
        expected = [list(dict.fromkeys(order)) for order in orders]
        written = [_id_of(end) for end in ends]
        assert [[one.id for one in jobs.blockers(end)] for end in written] == [
            [ids[word] for word in order] for order in expected
        ]
        jobs.drain()
        assert [jobs.get(end).result for end in written] == expected

    def test_what_ends_while_it_is_written_is_returned_as_it_is(self, jobs: Rowcall) -> None:
        bad = jobs.enqueue("bad")
        jobs.cancel(bad.id)
        with jobs.flow() as flow:
            first = flow.add(bind(queue_of(jobs), "first", (), {}), after=bad)
            below = flow.add_chain([bind(queue_of(jobs), "below", (), {})] * 2, after=first)
        written = [node.job for node in (first, below)]
        assert [job and job.status for job in written] == [Status.CANCELLED, Status.CANCELLED]

    def test_a_block_that_fails_writes_nothing(self, jobs: Rowcall) -> None:
        def build() -> None:
            with jobs.flow() as flow:
                flow.add(bind(queue_of(jobs), "part", (), {}))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            build()
        assert jobs.list().jobs == []

    def test_a_graph_with_a_missing_blocker_is_not_written_at_all(self, jobs: Rowcall) -> None:
        flow = jobs.flow()
        flow.add(bind(queue_of(jobs), "part", (), {}))
        flow.add(bind(queue_of(jobs), "part", (), {}), after=12345)
        with pytest.raises(InvalidOption, match="no such job 12345"):
            flow.enqueue()
        assert jobs.list().jobs == []

    def test_an_empty_graph_is_none(self, jobs: Rowcall) -> None:
        assert jobs.flow().enqueue() == []

    def test_ten_thousand_jobs_take_as_many_statements_as_ten(self, jobs: Rowcall, store: Store) -> None:
        jobs.migrate()
        small, large = self._written(jobs, 10), self._written(jobs, 10_000)
        assert len(large) == len(small) < 10
        assert store.execute("select count(*) from rowcall_job") == [(10_010,)]
        assert store.execute("select count(*) from rowcall_edge") == [(8 + 2 * 4 + 9_998 + 2 * 4_999,)]
        assert jobs.stats().by_status["blocked"] == 10_008

    def _written(self, jobs: Rowcall, size: int) -> list[str]:
        """A root, many after it, each second of which waits for its neighbour as well, and one after them all."""
        part = bind(queue_of(jobs), "part", (), {})
        flow = jobs.flow()
        root = flow.add(part)
        previous = None
        middle = []
        for number in range(size - 2):
            node = flow.add(part, after=root if previous is None or number % 2 == 0 else [root, previous])
            previous = node
            middle.append(node)
        flow.add(part, after=middle[1::2])
        with statements_of(jobs) as seen:
            flow.enqueue()
        return seen

    def test_unblocking_takes_as_many_statements_for_many_as_for_one(self, jobs: Rowcall) -> None:
        part = bind(queue_of(jobs), "part", (), {})
        taken = []
        for size in (1, 300):
            flow = jobs.flow()
            root = flow.add(bind(queue_of(jobs), "root", (), {}))
            leaves = [flow.add(part, after=root) for _ in range(size)]
            flow.enqueue()
            claimed = next(job for job in jobs.claim("hand", limit=400) if job.type == "root")
            with statements_of(jobs) as seen:
                jobs.complete(claimed)
            taken.append(len(seen))
            assert root.job is not None
            assert claimed.id == root.job.id
            assert {jobs.get(leaf.job.id).status for leaf in leaves if leaf.job} == {Status.PENDING}
        server = queue_of(jobs).config.server
        assert taken[0] == taken[1] < (20 if server is not None and server.kind == "mysql" else 15)

    def test_a_job_without_dependents_costs_nothing_more(self, jobs: Rowcall) -> None:
        """Whatever else waits in the table."""
        jobs.enqueue("alone")
        with statements_of(jobs) as before:
            jobs.complete(jobs.claim("hand")[0])
        root = jobs.enqueue("root", delay=3600)
        for _ in range(5):
            jobs.enqueue("leaf", after=root)
        jobs.enqueue("alone")
        (claimed,) = jobs.claim("hand")
        with statements_of(jobs) as seen:
            jobs.complete(claimed)
        assert len(seen) <= len(before) + 1


class TestNeeded:
    """Retention keeps results that a job can still read."""

    @pytest.fixture
    def brief(self, open_queue: OpenQueue, clock: FakeClock) -> Rowcall:
        return open_queue(clock=clock, retention=Retention(succeeded=DAY, failed=DAY, cancelled=DAY))

    def _finished(self, jobs: Rowcall, kind: str, result: object = None) -> Job:
        job = jobs.enqueue(kind)
        jobs.complete(next(one for one in jobs.claim("hand", limit=10) if one.id == job.id), result)
        return job

    def test_a_blocker_is_kept_until_no_job_waits(self, brief: Rowcall, clock: FakeClock) -> None:
        done, unneeded = self._finished(brief, "part", "kept"), self._finished(brief, "part")
        other = brief.enqueue("other", delay=DAY * 5)

        @brief.task
        def whole(ctx: Context) -> list[object]:
            return ctx.blockers

        waiting = whole.using(after=[done, other]).enqueue()
        clock.advance(DAY * 2)
        assert brief.prune().jobs == 1
        assert [job.id for job in brief.list().jobs[::-1]] == [done.id, other.id, waiting.id]
        assert unneeded.id not in [job.id for job in brief.list().jobs]
        clock.advance(DAY * 3)
        (claimed,) = brief.claim("hand")
        brief.complete(claimed, "late")
        assert brief.prune().jobs == 0
        brief.drain()
        assert brief.get(waiting.id).result == ["kept", "late"]
        assert brief.prune().jobs == 1  # its own result is young
        clock.advance(DAY * 2)
        assert brief.prune().jobs == 2
        assert brief.list().jobs == []

    def test_a_chain_is_kept_as_long_as_its_youngest_step(self, brief: Rowcall, clock: FakeClock) -> None:
        part = bind(queue_of(brief), "part", (), {})
        chain = brief.start_chain([part, part, part])
        for _ in range(3):
            brief.complete(brief.claim("hand")[0], "done")
            clock.advance(DAY * 0.9)
        assert brief.prune().jobs == 0
        clock.advance(DAY * 0.05)
        assert brief.prune().jobs == 0
        assert brief.chain(chain.id).length == 3
        clock.advance(DAY * 0.1)
        assert brief.prune().jobs == 3
        assert brief.list().jobs == []

    def test_a_chain_that_continues_is_kept_whole(self, brief: Rowcall, clock: FakeClock) -> None:
        part = bind(queue_of(brief), "part", (), {})
        chain = brief.start_chain([part, part])
        brief.complete(brief.claim("hand")[0], "first")
        clock.advance(DAY * 30)
        assert brief.prune().jobs == 0
        assert brief.chain(chain.id).steps[0].result == "first"

    def test_a_chain_that_a_job_waits_for_is_kept(self, brief: Rowcall, clock: FakeClock) -> None:
        part = bind(queue_of(brief), "part", (), {})
        chain = brief.start_chain([part, part])
        other = brief.enqueue("other", delay=DAY * 30)
        brief.enqueue("send", after=[chain, other])
        for _ in range(2):
            brief.complete(brief.claim("hand")[0])
        clock.advance(DAY * 20)
        assert brief.prune().jobs == 0

    def test_edges_go_with_the_job_that_waited(self, brief: Rowcall, clock: FakeClock, store: Store) -> None:
        done = self._finished(brief, "part")
        waiting = brief.enqueue("send", after=done)
        brief.complete(brief.claim("hand")[0])
        assert brief.get(waiting.id).status is Status.SUCCEEDED
        clock.advance(DAY * 2)
        assert brief.prune().jobs == 2
        assert store.execute("select count(*) from rowcall_edge") == [(0,)]
