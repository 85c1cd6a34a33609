"""Tasks with more than a handler. Apart from the plain ones, which earlier revisions run, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import chain
from typing import Annotated, NamedTuple

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.noop import ARGUMENTS, MANY, NUMBER, TO
from rowcall import INJECTED, Context, Depends, Job, Limit, Rowcall
from rowcall.middleware import AsyncCallNext
from rowcall.operations.flows import Flow
from rowcall.task import AsyncContextTask, AsyncTask, BaseTask

STEPS = 10
BATCH = 100
LIMIT_KEYS, FAIR_VALUES, QUEUE_JOBS = 10_000, 1_000, 30


class FlowApp(NamedTuple):
    jobs: Rowcall
    noop: AsyncTask[[int, str], None]
    hop: AsyncContextTask[[int, str, int], None]
    keyed: AsyncTask[[int, str], None]
    limited: AsyncTask[[int, str], None]
    fair: AsyncTask[[int, str], None]
    ordered: AsyncTask[[int, str], None]
    surrounded: BaseTask[..., object]
    stepped: AsyncContextTask[[int, str], None]
    returning: AsyncTask[[int, str], dict[str, object]]
    batched: BaseTask[..., object]


async def resources() -> AsyncIterator[dict[str, str]]:
    yield {"client": "open"}


async def passing(ctx: Context, call_next: AsyncCallNext) -> object:
    return await call_next()


async def session() -> AsyncIterator[list[int]]:
    yield []


def open_flow_app(url: str) -> FlowApp:
    app = open_app(url)

    @app.jobs.task
    async def hop(ctx: Context, n: int, to: str, further: int) -> None:
        if further:
            ctx.continue_with(hop, n, to, further - 1)

    @app.jobs.task(key=lambda n, to: f"order-{n}")
    async def keyed(n: int, to: str) -> None:
        pass

    @app.jobs.task(limit=Limit("customer", concurrency=1, by="n"))
    async def limited(n: int, to: str) -> None:
        pass

    @app.jobs.task(fair_by="n")
    async def fair(n: int, to: str) -> None:
        pass

    @app.jobs.task(ordered_by="n")
    async def ordered(n: int, to: str) -> None:
        pass

    @app.jobs.task(middleware=[passing])
    async def surrounded(
        ctx: Context[dict[str, str]], n: int, to: str, session: Annotated[list[int], Depends(session)] = INJECTED
    ) -> None:
        assert ctx.resources["client"]

    @app.jobs.task
    async def stepped(ctx: Context, n: int, to: str) -> None:
        for number in range(STEPS):
            await ctx.step(f"step-{number}", _step, n)

    @app.jobs.task
    async def returning(n: int, to: str) -> dict[str, object]:
        return {"n": n, "to": to}

    @app.jobs.task(batch=BATCH)
    async def batched(items: list[dict[str, object]]) -> None:
        pass

    app.jobs.lifespan(resources)
    return FlowApp(
        app.jobs, app.noop_async, hop, keyed, limited, fair, ordered, surrounded, stepped, returning, batched
    )


async def _step(n: int) -> int:
    return n


def enqueue_chains(app: FlowApp, count: int) -> range:
    """Write chains of three steps. Return the ids of all steps."""
    call = app.noop.bind(NUMBER, TO)
    return _in_flows(app, count, lambda flow: flow.add_chain([call] * 3))


def enqueue_fan_in(app: FlowApp, count: int, width: int) -> range:
    """Write jobs that each wait for many others. Return the ids of all."""
    call = app.noop.bind(NUMBER, TO)
    ids: list[int] = []
    for _ in range(count // (width + 1)):
        with app.jobs.flow() as flow:
            last = flow.add(call, after=[flow.add(call) for _ in range(width)])
        assert last.job is not None
        ids += [last.job.id - width, last.job.id]
    return range(ids[0], ids[-1] + 1)


def enqueue_hops(app: FlowApp, count: int) -> range:
    """Write jobs that each continue twice. Return the ids that all three steps will have."""
    heads: list[Job] = []
    for _ in range(0, count // 3, MANY):
        heads += app.hop.enqueue_many([{**ARGUMENTS, "further": 2}] * MANY)
    return range(heads[0].id, heads[0].id + 3 * len(heads))


def enqueue_limited(app: FlowApp, count: int, keys: int) -> range:
    """Write jobs of many keys, in turn, with one job per key at a time. Return their ids."""
    return _of_keys(app.limited, count, keys)


def enqueue_fair(app: FlowApp, count: int, values: int) -> range:
    """Write jobs of many values, in turn. Return their ids, in the order of their turns."""
    return _of_keys(app.fair, count, values)


def enqueue_ordered(app: FlowApp, count: int, keys: int) -> range:
    """Write jobs of many values, in turn. Return their ids."""
    return _of_keys(app.ordered, count, keys)


def _of_keys(task: AsyncTask[[int, str], object], count: int, keys: int) -> range:
    written: list[Job] = []
    for start in range(0, count, MANY):
        written += task.enqueue_many(_numbered(range(start, start + MANY), keys))
    return range(written[0].id, written[-1].id + 1)


def enqueue_batch(app: FlowApp, count: int) -> range:
    """Write plain jobs of one batch, and seal it. Return their ids."""
    batch, written = app.jobs.batch("group"), list[Job]()
    for _ in range(0, count, MANY):
        written += batch.add([app.noop.bind(NUMBER, TO)] * MANY)
    batch.seal()
    return range(written[0].id, written[-1].id + 1)


def enqueue_last_attempts(app: FlowApp, count: int) -> range:
    """Write plain jobs; every tenth has one attempt only. Return their ids."""
    ids: list[int] = []
    last = app.noop.using(max_attempts=1)
    for _ in range(0, count, MANY):
        with app.jobs.transaction():
            for _ in range(0, MANY, 10):
                ids += [app.noop.enqueue_many([ARGUMENTS] * 9)[0].id, last.enqueue(NUMBER, TO).id]
    return range(ids[0], ids[-1] + 1)


def enqueue_to_queues(app: FlowApp, count: int, queues: int, *, interleaved: bool = False) -> range:
    """Write plain jobs to many queues, as many to each: one queue after the other, or in turns. Return their ids."""
    tasks = [app.noop.using(queue=f"queue-{number}") for number in range(queues)]
    each = count // queues
    groups = chain.from_iterable([tasks] * each) if interleaved else tasks
    with app.jobs.transaction():
        written = [task.enqueue_many([ARGUMENTS] * (1 if interleaved else each)) for task in groups]
    return range(written[0][0].id, written[-1][-1].id + 1)


def enqueue_beside_queues(app: FlowApp, count: int, queues: int) -> range:
    """Write plain jobs to one queue, and before them one job to each of many others. Return the ids of the first."""
    enqueue_to_queues(app, queues, queues)
    return enqueue_jobs(app.noop, count)


def _numbered(numbers: Sequence[int], most: int) -> list[dict[str, object]]:
    return [{**ARGUMENTS, "n": number % most} for number in numbers]


def _in_flows(app: FlowApp, count: int, add_three: Callable[[Flow], object]) -> range:
    ids: list[int] = []
    for _ in range(0, count, 3 * MANY):
        flow = app.jobs.flow()
        for _ in range(MANY):
            add_three(flow)
        written = flow.enqueue()
        ids += [written[0].id, written[-1].id]
    return range(ids[0], ids[-1] + 1)


BACKLOGS: Mapping[str, Callable[[FlowApp, int], range]] = {
    "plain": lambda app, count: enqueue_jobs(app.noop, count),
    "results": lambda app, count: _of_keys(app.returning, count, count),
    "keyed": lambda app, count: _of_keys(app.keyed, count, count),
    "limited": lambda app, count: enqueue_limited(app, count, LIMIT_KEYS),
    "ordered": lambda app, count: enqueue_ordered(app, count, LIMIT_KEYS),
    "fair": lambda app, count: enqueue_fair(app, count, FAIR_VALUES),
    "steps": lambda app, count: enqueue_jobs(app.stepped, count),
    "batch_handlers": lambda app, count: enqueue_jobs(app.batched, count),
    "batch": enqueue_batch,
    "chains": enqueue_chains,
    "one_attempt": lambda app, count: enqueue_jobs(app.noop.using(max_attempts=1), count),
    "queues": lambda app, count: enqueue_to_queues(app, count, count // QUEUE_JOBS),
    "queues_interleaved": lambda app, count: enqueue_to_queues(app, count, count // QUEUE_JOBS, interleaved=True),
    "queues_foreign": lambda app, count: enqueue_beside_queues(app, count, count // QUEUE_JOBS),
}
"""How many jobs of each kind are written, of which the ids are returned."""
