"""Keys, chains and blockers with several processes, some of which are killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rowcall import Job, Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations.enqueue import bind
from rowcall.testing.deadline import eventually
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes
from tests.conformance.store import Store


class TestFlowProcesses:
    @pytest.fixture
    def real(self, open_queue: OpenQueue) -> Rowcall:
        jobs = open_queue()
        jobs.migrate()
        return jobs

    @pytest.mark.concurrency
    def test_fifty_that_enqueue_one_key_at_once_make_one_job(
        self, real: Rowcall, start_program: StartProgram, notes: Notes, store: Store, tmp_path: Path
    ) -> None:
        """Five processes of ten threads, each thread with a separate queue and connection."""
        gate = tmp_path / "gate"
        programs = [start_program("keyed", str(gate), "--threads", "10") for _ in range(5)]
        eventually(lambda: len(notes.read("ready")) == 50, within=60, message="all are ready")
        gate.touch()
        assert [program.wait() for program in programs] == [0] * 5, [program.output for program in programs]
        (written,) = notes.read("written")
        assert {note.job_id for note in notes.read("duplicate")} == {written.job_id}
        assert len(notes.read("duplicate")) == 49
        assert store.execute("select count(*) from rowcall_job") == [(1,)]

    @pytest.mark.crash
    def test_the_next_step_is_written_if_and_only_if_the_one_before_is_settled(
        self, real: Rowcall, start_program: StartProgram, store: Store
    ) -> None:
        first = [real.enqueue("going", {"left": 3}) for _ in range(200)]
        victim = start_program("work", "--concurrency", "8", "--lease", "1")
        eventually(lambda: real.stats().by_status["succeeded"] > 100, message="some steps are through")
        victim.kill()
        self._check(real, first)
        start_program("work", "--concurrency", "8", "--lease", "1")
        eventually(lambda: real.stats().by_status["succeeded"] == 800, within=60, message="all chains are through")
        self._check(real, first)
        assert {(chain.length, chain.status) for chain in map(real.chain, (job.id for job in first))} == {
            (4, Status.SUCCEEDED)
        }
        assert store.execute("select count(*) from rowcall_job") == [(800,)]

    def _check(self, jobs: Rowcall, first: list[Job]) -> None:
        steps: dict[int, list[Job]] = {}
        cursor = None
        while True:
            page = jobs.list(type="going", limit=1000, cursor=cursor)
            for job in page.jobs:
                steps.setdefault(job.chain_id or job.id, []).append(job)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert steps.keys() == {job.id for job in first}
        for chain in steps.values():
            *done, last = sorted(chain, key=lambda job: job.id)
            assert [job.chain_index or 0 for job in (*done, last)] == list(range(len(chain)))
            assert {job.status for job in done} <= {Status.SUCCEEDED}
            assert last.status is not Status.SUCCEEDED or last.payload["left"] == 0

    @pytest.mark.crash
    def test_a_handler_that_dies_after_saying_what_comes_next_has_written_nothing(
        self, real: Rowcall, start_program: StartProgram, notes: Notes, store: Store
    ) -> None:
        job = real.enqueue("deadly_going", max_attempts=1)
        waiting = real.enqueue("quick", after=job, queue="later")
        victim = start_program("work", "--lease", "1", "--queues", "default")
        assert victim.wait() == -signal.SIGKILL, victim.output
        assert len(notes.read("started")) == 1
        assert store.execute("select count(*) from rowcall_job") == [(2,)]
        start_program("work", "--lease", "1")
        eventually(lambda: real.get(waiting.id).status is Status.FAILED, message="the dependant failed")
        assert real.get(job.id).error_code == "WORKER:LOST"
        assert real.get(waiting.id).error_code == "BLOCKER:FAILED"
        assert store.execute("select count(*) from rowcall_job") == [(2,)]

    @pytest.mark.concurrency
    def test_graphs_run_in_order_across_processes(
        self, real: Rowcall, start_program: StartProgram, notes: Notes
    ) -> None:
        for _ in range(2):
            start_program("work")
        eventually(lambda: len(real.workers()) == 2, message="two workers")
        edges: dict[int, list[int]] = {}
        part = bind(queue_of(real), "quick", (), {})
        for _ in range(20):
            flow = real.flow()
            root = flow.add(part)
            middle = [flow.add(part, after=root) for _ in range(5)]
            flow.add(part, after=middle)
            ids = [job.id for job in flow.enqueue()]
            edges.update(dict.fromkeys(ids[1:6], ids[:1]))
            edges[ids[6]] = ids[1:6]
        late = real.enqueue("quick", after=list(edges)[-1])
        edges[late.id] = [list(edges)[-1]]
        eventually(lambda: real.stats().by_status["succeeded"] == 141, within=60, message="all are through")
        both = [(note.event, note.job_id) for note in notes.read()]
        for job_id, blockers in edges.items():
            for blocker in blockers:
                assert both.index(("ended", blocker)) < both.index(("started", job_id))
        assert len(notes.read("started")) == len(notes.read("ended")) == 141
