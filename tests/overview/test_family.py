from __future__ import annotations

from pathlib import Path

from rowcall import Context, Rowcall
from rowcall.app import queue_of
from rowcall.overview.family import Relative, family
from tests.http.client import client_of


def test_parents_and_children_are_a_tree(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, client_of(jobs) as client:

        @jobs.task
        async def leaf(ctx: Context, number: int) -> int:
            return number

        @jobs.task
        async def branch(ctx: Context, number: int) -> int:
            return await ctx.call(leaf, number) + await ctx.call(leaf, number + 1)

        @jobs.task
        async def root(ctx: Context) -> int:
            return await ctx.call(branch, 1) + await ctx.call(leaf, 5)

        @jobs.task
        def plain() -> None: ...

        job, alone = root.enqueue(), plain.enqueue()
        for _ in range(12):
            jobs.drain()
        assert jobs.get(job).result == 8
        below = {step.position: step.child_id for step in jobs.steps(job)}
        assert list(below) == [1, 2]
        tree = queue_of(jobs).run(family(queue_of(jobs), job.id))
        assert [(one.depth, one.type, one.status, one.here) for one in tree] == [
            (0, "root", "succeeded", True),
            (1, "branch", "succeeded", False),
            (2, "leaf", "succeeded", False),
            (2, "leaf", "succeeded", False),
            (1, "leaf", "succeeded", False),
        ]
        middle = queue_of(jobs).run(family(queue_of(jobs), tree[1].job_id))
        assert [(one.depth, one.type, one.here) for one in middle] == [
            *((0, "root", False), (1, "branch", True), (2, "leaf", False), (2, "leaf", False)),
        ]
        jobs.delete(tree[4].job_id)
        assert queue_of(jobs).run(family(queue_of(jobs), job.id))[4] == Relative(1, tree[4].job_id, "leaf", "deleted")
        assert queue_of(jobs).run(family(queue_of(jobs), alone.id)) == []
        page = client.page(f"/jobs/{job.id}")
        assert f'<a class="link" href="/jobs/{tree[2].job_id}">leaf {tree[2].job_id}</a>' in page
        assert 'id="family"' not in client.page(f"/jobs/{alone.id}")
