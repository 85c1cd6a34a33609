"""What a storm has left in a database is found: a clean one passes, and one bad row does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from tests.crash.storm import leftovers
from tests.observe.plain_sql import PlainSqlite


class Scene:
    """A real file, with one job that has run and one that failed."""

    def __init__(self, folder: Path) -> None:
        self.jobs = Rowcall(f"sqlite:///{folder}/app.db", blob_threshold=1024)
        self.good = self.jobs.task(name="good")(lambda: "x" * 2_000)
        self.bad = self.jobs.task(name="bad", max_attempts=1)(_fail)
        self.good.using(tags=["storm"]).enqueue()
        self.bad.enqueue()
        self.jobs.drain()
        self.database = PlainSqlite(f"sqlite:///{folder}/app.db")
        self.database.ask("pragma foreign_keys = off")

    def problems(self) -> list[str]:
        stored = set(queue_of(self.jobs).blobs.store.digests(-1))
        return [
            *leftovers.rows_left(self.database),
            *leftovers.blobs_left(self.jobs, self.database, stored),
            *leftovers.wrong_answers(self.jobs, self.database),
            *leftovers.odd_timelines(self.jobs, self.jobs.list().jobs),
        ]


def _fail() -> None:
    raise LookupError


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.database.close()
    scene.jobs.close()


SPOILT = {
    "jobs that are not finished": "insert into rowcall_job (type) values ('forgotten')",
    "claims": """insert into rowcall_claim (job_id, lease, holder, attempt, worker, claimed_at)
                 values (1, 3, 7, 2, 'gone', 1893456000000)""",
    "ready rows": """insert into rowcall_ready (queue, type, rank, turn, id, since)
                     values ('default', 'fine', -1, 1, 1, 1893456000000)""",
    "slots": "insert into rowcall_slot (limit_key, job_id, lease) values ('k', 1, 1)",
    "workers": """
        insert into rowcall_worker (name, host, pid, queues, concurrency, version, lease_ms, started_at, heartbeat_at)
        values ('w', 'h', 1, '*', 1, '0', 1, 0, 0)""",
    "sealed batches that have not finished": """
        insert into rowcall_batch (created_at, sealed_at, name) values (0, 0, 'b')""",
    "batches that have counted wrongly": "insert into rowcall_batch (created_at, name, added) values (0, 'b', 1)",
    "openings of a rate": "insert into rowcall_opening values ('k', 0)",
    "pins of blobs": "insert into rowcall_blob_pin values ('t', 'd', 'r')",
    "edges of deleted jobs": "insert into rowcall_edge (blocker_id, job_id, position) values (1, 99, 0)",
    "open edges of jobs that do not wait": "insert into rowcall_edge (blocker_id, job_id, position) values (1, 2, 0)",
    "open edges of blockers that succeeded": "insert into rowcall_edge (blocker_id, job_id, position) values (1, 2, 0)",
    "attempts of deleted jobs": """insert into rowcall_attempt (job_id, attempt, status, claimed_at)
        values (99, 1, 'lost', 0)""",
    "events of deleted jobs": "insert into rowcall_event (job_id, at, event) values (99, 0, 'X')",
    "references of deleted jobs": "insert into rowcall_blob_ref (digest, job_id) values ('d', 99)",
    "noted and not needed": "delete from rowcall_blob_ref",
    "are not needed, or not there": "update rowcall_job set result = null",
    "not what a slow count says": "update rowcall_job set status = 'cancelled' where id = 2",
    "differs from": "insert into rowcall_event (job_id, at, event) values (1, 0, 'STARTED')",
}


def test_a_clean_database_passes(scene: Scene) -> None:
    assert scene.problems() == []


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_left_is_found(scene: Scene, what: str) -> None:
    scene.database.ask(SPOILT[what])
    assert any(what in problem for problem in scene.problems())


def test_an_edge_is_open_while_its_blocker_waits_for_good(scene: Scene) -> None:
    """Of the blockers of the last job, one failed, and one waits for a retry of a job that failed."""
    with scene.jobs.flow() as flow:
        first = flow.add(scene.bad.bind())
        waits = flow.add(scene.good.using(on_blocker_failure="wait").bind(), after=first)
        fails = flow.add(scene.bad.using(on_blocker_failure="run").bind(), after=first)
        last = flow.add(scene.good.bind(), after=[waits, fails])
    scene.jobs.drain()
    assert waits.job is not None
    assert last.job is not None
    assert [scene.jobs.get(job).status for job in (waits.job, last.job)] == ["blocked", "failed"]
    assert scene.problems() == []


def test_a_blob_that_is_gone_is_found(scene: Scene) -> None:
    for digest in queue_of(scene.jobs).blobs.store.digests(-1):
        queue_of(scene.jobs).blobs.store.delete(digest, -1)
    assert any("cannot be read" in problem for problem in scene.problems())


def test_no_rest_is_without_a_bad_row() -> None:
    assert leftovers.NONE_OF.keys() <= SPOILT.keys()
