"""Blobs are removed when nothing refers to them any more, and never while something may."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from rowcall import Retention, Rowcall
from rowcall.app import queue_of
from rowcall.operations.blobs import GROUP_SIZE, collect_blobs
from rowcall.operations.effects import Read, Write
from rowcall.store.queries.blobs import UNREFERRED_BLOBS
from rowcall.store.statement import Statement, as_is, execute
from rowcall.worker.upkeep.pruning import PruningDuties
from tests.blobs.conftest import Open
from tests.blobs.support import DAY, TEXT, Shelves, digest_in_row, referred, rows
from tests.connected import connected


def test_what_is_referred_to_stays_and_what_is_not_goes(jobs: Rowcall) -> None:
    first, second = (jobs.enqueue("task", {"text": TEXT}) for _ in range(2))
    shelves = Shelves(jobs)
    shelves.age()
    jobs.delete(first.id)
    assert collect_blobs(queue_of(jobs)) == 0
    assert jobs.get(second.id).payload == {"text": TEXT}
    jobs.delete(second.id)
    assert (collect_blobs(queue_of(jobs)), shelves.digests, referred(jobs)) == (1, set(), [])
    assert collect_blobs(queue_of(jobs)) == 0


def test_what_was_put_lately_stays(jobs: Rowcall) -> None:
    shelves = Shelves(jobs)
    jobs.delete(jobs.enqueue("task", {"text": TEXT}).id)
    shelves.age(DAY - 60)
    assert (collect_blobs(queue_of(jobs)), len(shelves.digests)) == (0, 1)
    shelves.age(DAY + 60)
    assert (collect_blobs(queue_of(jobs)), len(shelves.digests)) == (1, 0)


def test_what_is_put_again_counts_as_new(jobs: Rowcall) -> None:
    shelves = Shelves(jobs)
    jobs.delete(jobs.enqueue("task", {"text": TEXT}).id)
    shelves.age()
    jobs.delete(jobs.enqueue("task", {"text": TEXT}).id)
    assert (collect_blobs(queue_of(jobs)), len(shelves.digests)) == (0, 1)


def test_more_than_are_looked_at_once(jobs: Rowcall) -> None:
    kept = jobs.enqueue("task", {"text": TEXT})
    shelves = Shelves(jobs)
    for number in range(GROUP_SIZE + 5):
        shelves.put(str(number).encode())
    shelves.age()
    first = collect_blobs(queue_of(jobs), stopping=lambda: len(shelves.digests) < GROUP_SIZE)
    assert GROUP_SIZE - 1 <= first <= GROUP_SIZE  # the one that is kept may be among them
    assert first + collect_blobs(queue_of(jobs)) == GROUP_SIZE + 5
    assert shelves.digests == {digest_in_row(jobs, kept)}


def test_what_is_put_between_the_look_and_the_removal_stays(open_queue: Open) -> None:
    """A process enqueues the same content after another found that it is not needed."""
    jobs, other = open_queue(), open_queue()
    jobs.delete(jobs.enqueue("task", {"text": TEXT}).id)
    shelves = Shelves(jobs)
    shelves.age()
    store = queue_of(jobs).blobs.store
    (digest,) = store.digests(DAY)
    assert queue_of(jobs).run(Read(queue_of(jobs).dialect.ask(UNREFERRED_BLOBS, [digest]))) == [digest]
    job = other.enqueue("task", {"text": TEXT})
    store.delete(digest, DAY)
    assert other.get(job.id).payload == {"text": TEXT}


def test_a_rolled_back_enqueue_leaves_only_garbage(jobs: Rowcall) -> None:
    shelves = Shelves(jobs)
    jobs.migrate()
    if queue_of(jobs).database.path:
        with closing(sqlite3.connect(queue_of(jobs).database.path)) as mine:
            jobs.enqueue("task", {"text": TEXT}, connection=mine)
            mine.rollback()
    else:
        server_config = queue_of(jobs).config.server
        assert server_config is not None
        with connected(server_config.url, autocommit=False) as server:
            jobs.enqueue("task", {"text": TEXT}, connection=server)
            server.rollback()
    assert (jobs.list().jobs, referred(jobs), len(shelves.digests)) == ([], [], 1)
    shelves.age()
    assert (collect_blobs(queue_of(jobs)), shelves.digests) == (1, set())


def test_a_call_that_was_cut_off_between_its_statements_keeps_its_blob(jobs: Rowcall) -> None:
    """On a connection in autocommit mode, the row is there before it is written down what it needs."""
    job = jobs.enqueue("task", {"text": TEXT})
    digest = digest_in_row(jobs, job)
    (reference,) = rows(jobs, "select cast(payload as text) from rowcall_job")[0]
    _execute(jobs, "delete from rowcall_blob_ref")
    _execute(jobs, f"insert into rowcall_blob_pin (token, digest, reference) values ('t', '{digest}', '{reference}')")
    shelves = Shelves(jobs)
    shelves.age()
    assert collect_blobs(queue_of(jobs)) == 0
    assert referred(jobs) == [(digest, job.id)]
    assert rows(jobs, "select * from rowcall_blob_pin") == []
    jobs.delete(job.id)
    assert collect_blobs(queue_of(jobs)) == 1


def test_a_pin_whose_row_was_never_written_is_taken_out(jobs: Rowcall) -> None:
    jobs.delete(jobs.enqueue("task", {"text": TEXT}).id)
    (digest,) = Shelves(jobs).digests
    _execute(jobs, f"insert into rowcall_blob_pin (token, digest, reference) values ('t', '{digest}', '{{}}')")
    Shelves(jobs).age()
    assert collect_blobs(queue_of(jobs)) == 1
    assert rows(jobs, "select * from rowcall_blob_pin") == []


def _execute(jobs: Rowcall, sql: str) -> None:
    queue_of(jobs).run(Write(lambda: execute(Statement(sql, (), as_is))))


def test_pruning_takes_what_only_the_pruned_needed(open_queue: Open) -> None:
    jobs = open_queue(retention=Retention(succeeded=0))
    shelves = Shelves(jobs)
    kept = jobs.enqueue("kept", {"text": TEXT + "2"})
    jobs.enqueue("task", {"text": TEXT})
    claimed = jobs.claim("me", limit=2)[-1]
    jobs.complete(claimed, TEXT)
    shelves.age()
    assert jobs.prune().jobs == 1
    assert shelves.digests == {digest_in_row(jobs, kept)}


def test_workers_collect_by_themselves(jobs: Rowcall) -> None:
    shelves = Shelves(jobs)
    jobs.delete(jobs.enqueue("task", {"text": TEXT}).id)
    shelves.age()
    janitor = PruningDuties(queue_of(jobs))
    janitor.round()
    assert shelves.digests == set()
    shelves.put(b"again")
    shelves.age()
    janitor.round()
    assert len(shelves.digests) == 1  # it is not an hour since the last time
