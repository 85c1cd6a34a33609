"""The tables are made on first use, once, and never by older code than made them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rowcall import Context, InvalidOption, Rowcall, SchemaMismatch
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.store import Store


@pytest.mark.no_tables
class TestMigrations:
    @pytest.fixture
    def store(self, new_store: Callable[[], Store]) -> Store:
        """A store without tables."""
        return new_store()

    def test_the_first_use_makes_the_tables(self, open_queue: OpenQueue) -> None:
        assert open_queue().list().jobs == []

    def test_migrating_twice_changes_nothing(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        found, now = jobs.migrate()
        assert found == 0 < now
        assert jobs.migrate() == (now, now)
        assert open_queue().migrate() == (now, now)

    def test_what_was_stored_is_still_there_after_opening_again(self, open_queue: OpenQueue) -> None:
        job = open_queue().enqueue("send", {"to": "a"})
        assert open_queue().get(job.id) == job

    def test_queues_of_any_prefixes_live_side_by_side(self, store: Store) -> None:
        for prefix in ("_", "__", "_1", "a_", "a_edge_", "a_slot_", "pg_", "order", "x" * 40):
            with Rowcall(store.url, table_prefix=prefix) as jobs:

                @jobs.task
                def send(ctx: Context) -> list[object]:
                    return ctx.blockers

                first = send.using(tags=["red"], key="k").enqueue()
                last = send.using(after=first).enqueue()
                assert jobs.drain().succeeded == 2
                assert jobs.get(last.id).result == [[]]
                assert [job.id for job in jobs.list(tag="red").jobs] == [first.id] == [1]
                assert jobs.timeline(last.id)

    def test_a_prefix_with_capitals_is_refused(self, store: Store) -> None:
        said = "table_prefix must be lower case: use 'shop_', got 'Shop_'"
        with pytest.raises(InvalidOption, match=said) as caught:
            Rowcall(store.url, table_prefix="Shop_")
        assert caught.value.option == "table_prefix"

    def test_without_auto_migrate_missing_tables_are_said_to_be_missing(self, open_queue: OpenQueue) -> None:
        careful = open_queue(auto_migrate=False)
        with pytest.raises(SchemaMismatch) as mismatch:
            careful.enqueue("send")
        assert (mismatch.value.found, "migrate" in str(mismatch.value)) == (0, True)
        careful.migrate()
        careful.enqueue("send")

    def test_a_database_that_is_newer_than_the_code_is_refused(self, open_queue: OpenQueue, store: Store) -> None:
        _, newest = open_queue().migrate()
        store.execute(
            "insert into rowcall_migration (version, name, applied_at)"
            f" select {newest + 1}, 'from the future', max(applied_at) from rowcall_migration"
        )
        for use in (_enqueue, _migrate, _list):
            with pytest.raises(SchemaMismatch) as mismatch:
                use(open_queue())
            assert (mismatch.value.found, mismatch.value.wanted) == (newest + 1, newest)
        assert store.execute("select count(*) from rowcall_job") == [(0,)]

    @pytest.mark.parametrize(
        "change",
        [
            "update rowcall_migration set fingerprint = 'other'",
            "alter table rowcall_migration drop column fingerprint",
        ],
    )
    def test_tables_of_an_unreleased_version_are_refused(
        self, open_queue: OpenQueue, store: Store, change: str
    ) -> None:
        open_queue().migrate()
        store.execute(change)
        [(found,)] = store.execute("select max(version) from rowcall_migration")
        said = rf"made by an unreleased version of Rowcall \(version {found}\): finish the jobs .* drop all tables"
        for use in (_enqueue, _migrate, _list):
            with pytest.raises(SchemaMismatch, match=said) as mismatch:
                use(open_queue())
            assert mismatch.value.found == found
        with pytest.raises(SchemaMismatch, match=said):
            open_queue(auto_migrate=False).enqueue("send")

    def test_a_newer_version_that_made_the_tables_in_other_steps_is_called_newer(
        self, open_queue: OpenQueue, store: Store
    ) -> None:
        """Such tables must not be dropped: the advice does not say so."""
        _, newest = open_queue().migrate()
        store.execute("update rowcall_migration set version = version + 7, oldest = oldest + 7")
        for use in (_enqueue, _migrate, _list):
            with pytest.raises(
                SchemaMismatch, match="a newer Rowcall made them; install that version here"
            ) as mismatch:
                use(open_queue())
            assert (mismatch.value.found, mismatch.value.wanted) == (newest + 7, newest)

    def test_a_table_that_is_missing_is_named(self, open_queue: OpenQueue, store: Store) -> None:
        _, newest = open_queue().migrate()
        store.execute("alter table rowcall_event rename to put_away")
        said = f"the table rowcall_event is missing, though the tables are at version {newest}: restore what is missing"
        for use in (_enqueue, _migrate, _list):
            with pytest.raises(SchemaMismatch, match=said) as mismatch:
                use(open_queue())
            assert (mismatch.value.found, mismatch.value.wanted) == (newest, newest)
        store.execute("alter table put_away rename to rowcall_event")
        open_queue().enqueue("send")

    @pytest.mark.concurrency
    def test_threads_may_open_it_at_once(self, open_queue: OpenQueue) -> None:
        queues = [open_queue() for _ in range(8)]
        barrier = threading.Barrier(8)
        failures: list[BaseException] = []

        def first_use(jobs: Rowcall) -> None:
            barrier.wait()
            try:
                jobs.enqueue("send")
            except BaseException as error:
                failures.append(error)

        _all_at_once([lambda jobs=jobs: first_use(jobs) for jobs in queues])  # type: ignore[misc]
        assert failures == []
        assert len(queues[0].list().jobs) == 8

    @pytest.mark.concurrency
    def test_processes_may_open_it_at_once(self, open_queue: OpenQueue, start_program: StartProgram) -> None:
        programs = [start_program("enqueue", "1") for _ in range(4)]
        assert [program.wait() for program in programs] == [0] * 4, [program.output for program in programs]
        assert len(open_queue().list().jobs) == 4


def _enqueue(jobs: Rowcall) -> None:
    jobs.enqueue("send")


def _migrate(jobs: Rowcall) -> None:
    jobs.migrate()


def _list(jobs: Rowcall) -> None:
    jobs.list()


def _all_at_once(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
