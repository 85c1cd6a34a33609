"""`rowcall migrate --dry-run`: what it says about locks is what the statements lock, and it writes nothing."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.store.migration import MigrationPreview
from rowcall.store.postgres.schema import CODE, LOCKING, NEWEST_VERSION
from tests.store.postgres.databases import migrated
from tests.upgrades.product import ADDITIONS, LATER_VERSION, later_product
from tests.upgrades.stored import DATABASES

ROWS = 7
EVERY_KIND = (
    *ADDITIONS,
    "alter table <edge> alter column job_id set (n_distinct = -0.4)",
    "alter table <job> add column counted <prefix>count_type default 1",
    "alter table <job> rename column future to past",
    "create function <prefix>nothing() returns trigger language plpgsql as $body$ begin return null; end $body$",
    "create trigger <prefix>job_nothing after update on <job> for each statement execute function <prefix>nothing()",
    "drop trigger <prefix>job_nothing on <job>",
    "create view <prefix>future_jobs as select id from <job>",
    "create or replace view <prefix>future_jobs as select id from <job> where id > 1",
    "create domain <prefix>future_type as text",
    "delete from <setting> where name = 'future'",
    "insert into <setting> (name, value) values ('future', 'now')",
    "drop view <prefix>future_jobs",
    "drop table <prefix>future",
)
NAMES = "select oid, relname::text from pg_class where relname like 'rowcall%' and relkind <> 'i'"
MODES = "select relation, mode from pg_locks where pid = pg_backend_pid()"
# from weak to strong, as PostgreSQL's documentation orders them
STRENGTHS = (
    "ACCESS SHARE",
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
)


def preview(jobs: Rowcall) -> MigrationPreview:
    queue = queue_of(jobs)
    return queue.database.read(queue.dialect.preview_migration(), snapshot=True)


def strongest_locks(server: psycopg.Connection, names: dict[int, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for relation, mode in server.execute(MODES).fetchall():
        if name := names.get(relation):
            words = "".join(f" {letter}" if letter.isupper() else letter for letter in mode.removesuffix("Lock"))
            found[name] = max(found.get(name, STRENGTHS[0]), words.strip().upper(), key=STRENGTHS.index)
    return found


@pytest.mark.new_database
def test_each_statement_takes_the_lock_that_was_foretold(postgres_url: str) -> None:
    with migrated(postgres_url) as server:
        with Rowcall(postgres_url) as jobs, later_product(statements=EVERY_KIND):
            steps = preview(jobs).steps
        assert len(steps) == len(EVERY_KIND) + sum(len(part.replace) for part in CODE)
        assert {step.lock for step in steps} == {None, *LOCKING.names.values()}
        for step in steps:
            with server.transaction():
                names = dict(server.execute(NAMES).fetchall())
                server.execute(step.statement.encode())
                locks = strongest_locks(server, names)
            if step.table:
                assert step.lock == locks.pop(step.table), step.statement
            new = {"rowcall_future", "rowcall_future_jobs"}
            others = [] if "drop" in step.statement else [lock for name, lock in locks.items() if name not in new]
            assert all(STRENGTHS.index(lock) <= STRENGTHS.index("ROW EXCLUSIVE") for lock in others), step.statement


@pytest.mark.parametrize("database", DATABASES)
def test_rows_and_times_are_those_until_the_end(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/app.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    with Rowcall(url) as jobs:
        for _ in range(ROWS):
            jobs.enqueue("note")
        with later_product():
            would = preview(jobs)
    assert (would.before, would.after) == (NEWEST_VERSION, LATER_VERSION)
    add, _, fill, index, table, copy, *code = would.steps
    assert (add.rows, add.seconds) == (0, 0)
    assert (fill.rows, index.rows) == (ROWS, ROWS)
    assert fill.seconds > index.seconds > 0
    assert add.locked_seconds == fill.locked_seconds == would.locked_seconds == fill.seconds + index.seconds
    assert table.locked_seconds == 0
    assert copy.table is None  # no one else knows it
    assert {(step.rows, step.seconds) for step in code} == {(0, 0.0)}


def test_every_statement_of_every_version_is_known(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        assert {step.lock for step in preview(jobs).steps} == {None}


@pytest.mark.no_tables
def test_a_role_that_cannot_write_may_ask(postgres_url: str) -> None:
    read_only = f"{postgres_url}?options=-cdefault_transaction_read_only%3Don"
    with Rowcall(read_only) as jobs:
        would = preview(jobs)
        assert (would.before, would.after, would.locked_seconds) == (0, NEWEST_VERSION, 0)
    with psycopg.connect(postgres_url) as server:
        assert server.execute("select count(*) from pg_class where relname like 'rowcall%'").fetchone() == (0,)
