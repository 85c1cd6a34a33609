"""Tables on a PostgreSQL server: made once however many begin, in the schema of the URL, next to other tables."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from rowcall import InvalidOption, Rowcall, RowcallError, SchemaMismatch, StoreUnavailable
from rowcall.store.postgres import dialect
from rowcall.store.postgres.schema import MIGRATIONS, NEWEST_VERSION
from rowcall.store.postgres.words import NAMES
from tests.store.later_tables import ADD_COLUMN, ADD_INDEX, FILL_COLUMN, later
from tests.support import ForkedProcess, eventually

pytestmark = pytest.mark.no_tables

PROCESSES = 4
ROUNDS = 4

MIGRATE_AT_EACH_SIGNAL = """
import sys, threading
import psycopg
from rowcall import Rowcall
url, rounds = sys.argv[1], int(sys.argv[2])
with psycopg.connect(url, autocommit=True) as signals:
    for turn in range(rounds):
        jobs = Rowcall(url, table_prefix=f"turn{turn}_")
        signals.execute("insert into ready values (%s)", [turn])
        signals.execute("select pg_advisory_lock_shared(%s)", [turn])
        jobs.enqueue("task")
        jobs.migrate()
        jobs.close()
        signals.execute("insert into done values (%s)", [turn])
"""


def ask(url: str, sql: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode(), parameters or None)
        return cursor.fetchall() if cursor.description is not None else []


def names(url: str, schema: str = "public", kinds: str = "r") -> set[str]:
    """Of tables (r), views (v), indexes (i) and sequences (S)."""
    rows = ask(
        url,
        "select relname from pg_class where relnamespace = %s::regnamespace and relkind::text = any(%s)",
        [schema, list(kinds)],
    )
    return {str(name) for (name,) in rows}


def tables(prefix: str) -> set[str]:
    return {f"{prefix}{name}" for name in NAMES}


def with_schema(url: str, schema: str) -> str:
    return f"{url}?options=-csearch_path%3D{schema}"


def test_from_nothing_and_then_there_is_nothing_to_do(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        assert jobs.migrate() == (0, NEWEST_VERSION)
        assert jobs.migrate() == (NEWEST_VERSION, NEWEST_VERSION)
    with Rowcall(postgres_url) as jobs:
        assert jobs.migrate() == (NEWEST_VERSION, NEWEST_VERSION)
    assert names(postgres_url) == tables("rowcall_")


def test_each_step_is_written_down_once(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
        jobs.migrate()
    steps = ask(postgres_url, "select version, name, oldest from rowcall_migration order by version")
    assert steps == [(migration.version, migration.name, migration.oldest) for migration in MIGRATIONS]
    assert ask(postgres_url, "select count(*) from rowcall_migration where applied_at between now() - interval '1 h'"
               " and now()") == [(len(MIGRATIONS),)]  # fmt: skip


def test_the_first_use_migrates_by_itself(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        assert jobs.enqueue("task").id == 1


def test_reading_first_migrates_too(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        assert jobs.list().jobs == []


def test_migrating_from_async_code(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        assert asyncio.run(jobs.amigrate()) == (0, NEWEST_VERSION)
    assert names(postgres_url) == tables("rowcall_")


def test_a_step_that_fails_leaves_nothing_behind(postgres_url: str) -> None:
    ask(postgres_url, "create table rowcall_timeline (mine text)")
    with Rowcall(postgres_url) as jobs, pytest.raises(RowcallError, match='"rowcall_timeline" already exists'):
        jobs.migrate()
    assert names(postgres_url, kinds="rvi") == {"rowcall_timeline"}


def test_auto_migrate_can_be_turned_off(postgres_url: str) -> None:
    with Rowcall(postgres_url, auto_migrate=False) as jobs:
        for use in (lambda: jobs.enqueue("task"), jobs.list, jobs.drain):
            with pytest.raises(SchemaMismatch, match="run: rowcall migrate") as caught:
                use()
            assert (caught.value.found, caught.value.wanted) == (0, NEWEST_VERSION)
        assert names(postgres_url) == set()
        jobs.migrate()
        assert jobs.enqueue("task").id == 1


def test_another_prefix_finds_no_tables(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.enqueue("task")
    with (
        Rowcall(postgres_url, table_prefix="rowcal_", auto_migrate=False) as jobs,
        pytest.raises(SchemaMismatch, match="run: rowcall migrate"),
    ):
        jobs.list()
    for prefix in ("", "1a", "a-b", "a b", 'a"b', "a;b", "ä", "x" * 41):
        with pytest.raises(InvalidOption, match="table_prefix"):
            Rowcall(postgres_url, table_prefix=prefix)


@pytest.mark.parametrize("prefix", ["q", "my_app_", "_", "__", "_x1_", "pg_", "x" * 40])
def test_the_prefix_is_on_everything(postgres_url: str, prefix: str) -> None:
    with Rowcall(postgres_url, table_prefix=prefix) as jobs:
        job = jobs.enqueue("task", tags=["a"])
        assert jobs.list(tag="a").jobs == [job]
    assert names(postgres_url) == tables(prefix)
    everything = {str(name) for (name,) in ask(postgres_url, EVERY_NAME)}
    assert len(everything) > 30
    assert [name for name in everything if not name.startswith(prefix)] == []


EVERY_NAME = """
    select relname::text from pg_class where relnamespace = 'public'::regnamespace
    union all select proname::text from pg_proc where pronamespace = 'public'::regnamespace
    union all select typname::text from pg_type where typnamespace = 'public'::regnamespace and typtype = 'd'
    union all select conname::text from pg_constraint where connamespace = 'public'::regnamespace
    union all select tgname::text from pg_trigger where not tgisinternal"""


def test_two_prefixes_live_in_one_database_next_to_the_apps_own_tables(postgres_url: str) -> None:
    ask(postgres_url, "create table job (id integer primary key)")
    with Rowcall(postgres_url, table_prefix="one_") as one, Rowcall(postgres_url, table_prefix="two_") as two:
        one.enqueue("first", tags=["a"])
        two.enqueue("second", tags=["a"])
        two.enqueue("third")
        assert [job.type for job in one.list(tag="a").jobs] == ["first"]
        assert [job.type for job in two.list().jobs] == ["third", "second"]
        two.delete(1)
        assert one.get(1).type == "first"
    assert names(postgres_url) == tables("one_") | tables("two_") | {"job"}


@pytest.mark.parametrize("schema", ["app", "%22Two-Words%22"])
def test_the_url_may_name_another_schema(postgres_url: str, schema: str) -> None:
    name = schema.replace("%22", '"')
    ask(postgres_url, f"create schema {name}")
    with Rowcall(with_schema(postgres_url, schema)) as jobs, Rowcall(postgres_url) as public:
        job = jobs.enqueue("task", tags=["a"])
        assert (job.id, public.enqueue("other").type) == (1, "other")
        # from a connection that looks for nothing there
        ask(postgres_url, f"insert into {name}.rowcall_job (type, tags) values ('plain', '[\"a\"]')")
        assert [job.type for job in jobs.list(tag="a").jobs] == ["plain", "task"]
        assert [job.type for job in public.list().jobs] == ["other"]
    assert names(postgres_url, name) == names(postgres_url) == tables("rowcall_")


def test_a_schema_that_is_not_there_is_named_as_the_problem(postgres_url: str) -> None:
    with Rowcall(with_schema(postgres_url, "nowhere")) as jobs, pytest.raises(RowcallError, match="schema"):
        jobs.enqueue("task")
    assert names(postgres_url) == set()


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """A user with no rights at all."""
    name = f"rowcall_{uuid.uuid4().hex}"
    ask(postgres_url, "revoke create on schema public from public")
    ask(postgres_url, f"create role {name}")
    yield name
    ask(postgres_url, f"drop role {name}")


def test_a_user_without_the_right_to_create_tables_gets_an_error(postgres_url: str, role: str) -> None:
    with (
        Rowcall(f"{postgres_url}?options=-crole%3D{role}") as jobs,
        pytest.raises(StoreUnavailable, match="permission denied for schema public"),
    ):
        jobs.enqueue("task")


def test_later_steps_are_added_to_what_is_there(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.enqueue("task")
    with later(dialect, (ADD_COLUMN, FILL_COLUMN), (ADD_INDEX,)) as newest:
        with Rowcall(postgres_url) as jobs:
            assert jobs.migrate() == (NEWEST_VERSION, newest)
            assert jobs.migrate() == (newest, newest)
            assert jobs.enqueue("task").id == 2
        assert ask(postgres_url, "select id, future from rowcall_job order by id") == [(1, "task"), (2, None)]
        assert ask(postgres_url, "select count(*) from rowcall_migration") == [(newest,)]


def test_a_later_step_that_fails_leaves_the_tables_as_they_were(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.enqueue("task")
        with later(dialect, (ADD_COLUMN,), ("select nonsense",)), pytest.raises(RowcallError, match="nonsense"):
            jobs.migrate()
        assert jobs.migrate() == (NEWEST_VERSION, NEWEST_VERSION)
        assert jobs.enqueue("task").id == 2


def test_a_process_that_is_killed_while_it_migrates_leaves_the_tables_as_they_were(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.enqueue("task")
    with ForkedProcess("-m", "tests.store.later_tables", postgres_url) as process:
        assert process.wait() == -signal.SIGKILL
    with Rowcall(postgres_url) as jobs:
        assert jobs.migrate() == (NEWEST_VERSION, NEWEST_VERSION)
        assert jobs.enqueue("task").id == 2
    with later(dialect, (ADD_COLUMN,)) as newest, Rowcall(postgres_url) as jobs:
        assert jobs.migrate() == (NEWEST_VERSION, newest)


@pytest.mark.concurrency
def test_many_threads_that_begin_at_once_migrate_once(postgres_url: str) -> None:
    queues = [Rowcall(postgres_url) for _ in range(4)]
    with ThreadPoolExecutor(12) as threads:
        done = [threads.submit(jobs.enqueue, "task") for jobs in queues for _ in range(3)]
        eventually(lambda: all(future.done() for future in done))
        assert sorted(future.result().id for future in done) == list(range(1, 13))
    for jobs in queues:
        jobs.close()
    assert ask(postgres_url, "select count(*) from rowcall_migration") == [(len(MIGRATIONS),)]


@pytest.mark.concurrency
@pytest.mark.slow
def test_many_processes_that_migrate_at_once(postgres_url: str) -> None:
    """All of them wait for one lock, and start when it is released. Each turn has its own tables."""
    ask(postgres_url, "create table ready (turn int); create table done (turn int)")
    with psycopg.connect(postgres_url, autocommit=True) as gate:

        def all_have(table: str, turn: int) -> bool:
            rows = gate.execute(f"select from {table} where turn = %s".encode(), [turn]).fetchall()
            assert all(process.returncode in (None, 0) for process in processes), processes[0].output
            return len(rows) == PROCESSES

        for turn in range(ROUNDS):
            gate.execute("select pg_advisory_lock(%s)", [turn])
        arguments = ("-c", MIGRATE_AT_EACH_SIGNAL, postgres_url, str(ROUNDS))
        processes = [ForkedProcess(*arguments) for _ in range(PROCESSES)]
        try:
            for turn in range(ROUNDS):
                eventually(lambda turn=turn: all_have("ready", turn), within=60)  # type: ignore[misc]
                gate.execute("select pg_advisory_unlock(%s)", [turn])
                eventually(lambda turn=turn: all_have("done", turn), within=60)  # type: ignore[misc]
                assert ask(postgres_url, f"select count(*) from turn{turn}_migration") == [(len(MIGRATIONS),)]
                assert ask(postgres_url, f"select count(*) from turn{turn}_job") == [(PROCESSES,)]
            assert [process.wait() for process in processes] == [0] * PROCESSES
        finally:
            for process in processes:
                process.close()
