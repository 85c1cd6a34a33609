from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Retention, Rowcall
from rowcall.app import queue_of
from rowcall.domain.job import Status
from rowcall.domain.retention import Rules
from rowcall.operations.effects import Write
from rowcall.store.counts.pruning import PRUNED_AT_ONCE, prune_group
from rowcall.store.queries.counts import Group

SUCCEEDED = Group(Status.SUCCEEDED, "default", "send")


@pytest.fixture(params=["sqlite", "postgresql"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Rowcall:
    url = f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return Rowcall(url)


def test_a_group_is_deleted_in_batches_until_told_to_stop(jobs: Rowcall) -> None:
    with jobs:
        queue = queue_of(jobs)
        task = jobs.task(name="send")(lambda: None)
        task.enqueue_many([{}] * (2 * PRUNED_AT_ONCE + 1))
        jobs.drain()

        def pruned(keep: float | None, *, go_on: bool, limit: int = 1_000) -> int:
            rules = Rules(Retention(succeeded=keep))
            plan = lambda: prune_group(queue.dialect, SUCCEEDED, rules, limit, lambda: go_on)  # noqa: E731
            return queue.run(Write(plan))

        assert pruned(None, go_on=True) == 0
        assert pruned(3600, go_on=True) == 0
        assert pruned(0, go_on=False) == PRUNED_AT_ONCE
        assert pruned(0, go_on=True, limit=1) == 1
        assert pruned(0, go_on=True) == PRUNED_AT_ONCE
        assert pruned(0, go_on=True) == 0
