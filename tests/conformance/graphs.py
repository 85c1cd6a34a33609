"""Random graphs of jobs, written through the queue, and what must be true of them once all have run."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rowcall import Context, Job, Rowcall
from rowcall.domain.job import Chain
from rowcall.operations.enqueue import Bound
from rowcall.operations.flows import Flow, Node
from rowcall.task import AsyncContextTask, ContextTask
from tests.conformance.notes import Note, Notes
from tests.conformance.store import Store

MAX_ATTEMPTS = 50
MOST_STEPS = 4
REMEMBERED = 300


class Vertices(NamedTuple):
    """The handlers of a graph: they note their start and their end, and may continue with further steps."""

    in_thread: ContextTask[[int], int]
    on_loop: AsyncContextTask[[int], int]

    def choose(self, chance: random.Random, further_steps: int = 0) -> Bound:
        using = chance.choice((self.in_thread.using, self.on_loop.using))
        delay = chance.choice((0, 0, 0, 0, 0.02))
        return using(priority=chance.randint(0, 2), delay=delay, max_attempts=MAX_ATTEMPTS).bind(further_steps)


def declare_vertices(jobs: Rowcall, notes: Notes) -> Vertices:
    def visit(ctx: Context, further_steps: int) -> int:
        notes.write("started", ctx.job.id, ctx.job.attempt)
        if further_steps:
            ctx.continue_with(on_loop.using(max_attempts=MAX_ATTEMPTS), further_steps - 1)
        notes.write("ended", ctx.job.id, ctx.job.attempt)
        return ctx.job.id

    @jobs.task
    def in_thread(ctx: Context, further_steps: int) -> int:
        return visit(ctx, further_steps)

    @jobs.task
    async def on_loop(ctx: Context, further_steps: int) -> int:
        return visit(ctx, further_steps)

    return Vertices(in_thread, on_loop)


class Grower:
    """Writes one graph after the other, some jobs of which wait for jobs and chains of earlier ones.

    `jobs_in_all` includes the steps with which chains will continue.
    """

    def __init__(self, jobs: Rowcall, vertices: Vertices, *, most_jobs: int, seed: int) -> None:
        self._jobs = jobs
        self._vertices = vertices
        self._most_jobs = most_jobs
        self._chance = random.Random(seed)
        self._earlier: list[Job | Chain] = []
        self.graphs = 0
        self.jobs_in_all = 0

    def write_one(self) -> None:
        size = self._chance.randint(1, self._most_jobs)
        flow = self._jobs.flow()
        nodes: list[Node] = []
        while len(nodes) < size:
            nodes.append(self._add(flow, nodes, size - len(nodes)))
        written = flow.enqueue()
        self.graphs += 1
        self.jobs_in_all += len(written)
        self._earlier = [*self._earlier, *written, self._start_chain()][-REMEMBERED:]

    def _add(self, flow: Flow, nodes: Sequence[Node], room: int) -> Node:
        after = [*self._some(nodes), *self._some_earlier()]
        if room >= MOST_STEPS and self._chance.random() < 0.05:
            steps = [self._vertices.choose(self._chance) for _ in range(self._chance.randint(1, MOST_STEPS))]
            return flow.add_chain(steps, after=after)
        return flow.add(self._vertices.choose(self._chance), after=after)

    def _some(self, nodes: Sequence[Node]) -> list[Node]:
        """None, a few, or all there are: graphs are wide, deep, and narrow in between."""
        how_many = self._chance.choice((0, 1, 1, 2, 3, len(nodes) if len(nodes) < 20 else 1))
        return self._chance.sample(list(nodes), min(how_many, len(nodes)))

    def _some_earlier(self) -> list[Job | Chain]:
        if not self._earlier or self._chance.random() < 0.9:
            return []
        return self._chance.sample(self._earlier, self._chance.randint(1, min(3, len(self._earlier))))

    def _start_chain(self) -> Chain:
        """Add a chain whose last step continues on its own."""
        further_steps = self._chance.randint(0, 2)
        steps = [self._vertices.choose(self._chance) for _ in range(self._chance.randint(0, 2))]
        chain = self._jobs.start_chain([*steps, self._vertices.choose(self._chance, further_steps)])
        self.jobs_in_all += chain.length + further_steps
        return chain


class Attempted(NamedTuple):
    attempt: int
    status: str
    pid: int


class Edge(NamedTuple):
    blocker_id: int
    of_chain: bool
    job_id: int
    state: str


class GraphHistory:
    """The rows and the notes of all attempts, once everything has ended."""

    def __init__(self, store: Store, notes: Notes) -> None:
        self._notes = list(enumerate(notes.read()))
        self.attempts: dict[int, list[Attempted]] = defaultdict(list)
        for job_id, attempt, status, worker in store.execute(
            "select job_id, attempt, status, worker from rowcall_attempts order by job_id, seq"
        ):
            pid = str(worker).rsplit(":", 2)[1]
            self.attempts[_whole(job_id)].append(Attempted(_whole(attempt), str(status), int(pid)))
        self.steps: dict[int, list[int]] = defaultdict(list)
        for chain_id, chain_index, job_id in store.execute(
            "select chain_id, chain_index, id from rowcall_job where chain_id is not null order by 1, 2"
        ):
            assert _whole(chain_index) == len(self.steps[_whole(chain_id)]), f"chain {chain_id} has a gap"
            self.steps[_whole(chain_id)].append(_whole(job_id))
        self.edges = [
            Edge(_whole(blocker), bool(of_chain), _whole(job), str(state))
            for blocker, of_chain, job, state in store.execute(
                "select blocker_id, of_chain, job_id, state from rowcall_edge"
            )
        ]
        self.leases = [
            (_whole(job_id), _whole(lease)) for job_id, lease in store.execute("select id, lease from rowcall_job")
        ]

    def check(self, jobs_in_all: int, killed: set[int]) -> None:
        assert len(self.attempts) == jobs_in_all, "jobs were forgotten, or there are too many"
        self._check_attempts(killed)
        self._check_notes()
        assert {edge.state for edge in self.edges} == {"succeeded"}, "a job still waits"
        self._check_order()

    def _check_attempts(self, killed: set[int]) -> None:
        for job_id, attempts in self.attempts.items():
            *lost, last = attempts
            assert [one.attempt for one in attempts] == list(range(1, len(attempts) + 1)), (job_id, attempts)
            assert last.status == "succeeded", (job_id, attempts)
            assert {one.status for one in lost} <= {"lost"}, (job_id, attempts)
            assert {one.pid for one in lost} <= killed, (job_id, attempts)
        # it goes up with each claim, and with the end of each: were one settled twice, it would be odd
        assert [job_id for job_id, lease in self.leases if lease % 2] == []
        assert [job_id for job_id, lease in self.leases if lease < 2 * len(self.attempts[job_id])] == []

    def _check_notes(self) -> None:
        begun = Counter((note.job_id, note.attempt) for _, note in self._notes if note.event == "started")
        assert [pair for pair, times in begun.items() if times > 1] == [], "an attempt ran twice"
        known = {(job_id, one.attempt): one.pid for job_id, attempts in self.attempts.items() for one in attempts}
        for _, note in self._notes:
            assert known.get((note.job_id, note.attempt)) == note.pid, f"not in the database: {note}"

    def _check_order(self) -> None:
        """Each job was first started after the good end of all that it waited for, chains to their last step."""
        first_start: dict[int, int] = {}
        for line, note in self._notes:
            if note.event == "started":
                first_start.setdefault(note.job_id, line)
        good_end = {note.job_id: line for line, note in self._notes if self._is_good_end(note)}
        assert set(first_start) == set(good_end) == set(self.attempts)
        for blocker_id, job_id in self._waits():
            assert good_end[blocker_id] < first_start[job_id], f"job {job_id} did not wait for job {blocker_id}"

    def _waits(self) -> Iterator[tuple[int, int]]:
        for edge in self.edges:
            for blocker_id in self.steps[edge.blocker_id] if edge.of_chain else [edge.blocker_id]:
                yield blocker_id, edge.job_id
        for steps in self.steps.values():
            yield from itertools.pairwise(steps)

    def _is_good_end(self, note: Note) -> bool:
        return note.event == "ended" and note.attempt == self.attempts[note.job_id][-1].attempt


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
