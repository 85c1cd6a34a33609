"""The tables of MariaDB and MySQL: a migration that is stopped anywhere continues, and triggers keep the ready rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.base.effects import drive
from rowcall.domain.config import Config, Server
from rowcall.domain.errors import Conflict
from rowcall.drivers.mysql.connection import MysqlConnection, MysqlSession, connect
from rowcall.store.counts.tallies import recount
from rowcall.store.mysql.schema import MIGRATIONS
from rowcall.store.mysql.tables import MysqlTables
from rowcall.store.queries.limits import HOLD
from rowcall.store.statement import Plan, Row, Statement, database_time, fetch, plain

TABLES = MysqlTables("rowcall_", database_time)
STATE = """
    select table_name, column_name, column_type, is_nullable, column_default from information_schema.columns
    where table_schema = database()
    union all
    select table_name, index_name, column_name, seq_in_index, null from information_schema.statistics
    where table_schema = database()
    union all
    select event_object_table, trigger_name, action_timing, event_manipulation, null from information_schema.triggers
    where trigger_schema = database()
    union all
    select constraint_name, table_name, constraint_type, '', null from information_schema.table_constraints
    where constraint_schema = database()
    order by 1, 2, 3, 4"""


class Killed(Exception):
    """The process that migrates is gone."""


def config(url: str) -> Config:
    return Config(server=Server(url=url))


@pytest.fixture
def session(mysql_url: str) -> Iterator[MysqlSession]:
    with closing(connect(mysql_url, config(mysql_url))) as raw:
        yield MysqlSession(raw, config(mysql_url))


def test_jobs_that_end_during_a_recount_are_counted_once(mysql_url: str) -> None:
    with Rowcall(mysql_url) as jobs, closing(connect(mysql_url, config(mysql_url))) as raw:
        jobs.task(name="plain")(lambda: None)
        jobs.migrate()
        session = MysqlSession(raw, config(mysql_url))
        ended = 0

        def end_one() -> None:
            nonlocal ended
            jobs.enqueue("plain")
            jobs.drain()
            ended += 1

        def between(statement: Statement[object]) -> list[Row]:
            end_one()
            return session.execute(statement)

        end_one()
        session.begin()
        drive(recount(queue_of(jobs).dialect), between)
        session.commit()
        assert ended == 5
        assert jobs.stats().by_status["succeeded"] == ended
        jobs.recount()
        assert jobs.stats().by_status["succeeded"] == ended


def state_of(session: MysqlSession) -> list[Row]:
    return session.read(fetch(plain(STATE)))


def test_a_migration_that_is_stopped_anywhere_goes_on(mysql_url: str, session: MysqlSession) -> None:
    """Each run of it gets a few statements further than the last one, in a separate session, and is killed."""
    run_statements = 0
    allowed = 0

    def run_until_killed(raw: pymysql.Connection) -> tuple[int, int]:
        nonlocal run_statements
        run_statements = 0
        other = MysqlSession(raw, config(mysql_url))

        def execute(statement: Statement[object]) -> list[Row]:
            nonlocal run_statements
            if run_statements == allowed:
                raise Killed
            rows = other.execute(statement)
            run_statements += 1
            return rows

        return drive(TABLES.migrate(), execute)

    versions = None
    kills = 0
    while versions is None:
        with closing(connect(mysql_url, config(mysql_url))) as raw:
            try:
                versions = run_until_killed(raw)
            except Killed:
                kills += 1
                allowed += 9
    assert kills > 5
    assert session.read(TABLES.version()).found == MIGRATIONS[-1].version
    interrupted = state_of(session)

    session.write(fetch(plain(f"drop database {mysql_url.rpartition('/')[2]}")))
    session.write(fetch(plain(f"create database {mysql_url.rpartition('/')[2]}")))
    session.write(fetch(plain(f"use {mysql_url.rpartition('/')[2]}")))
    assert session.write(TABLES.migrate()) == (0, MIGRATIONS[-1].version)
    assert state_of(session) == interrupted
    assert session.write(TABLES.migrate()) == (MIGRATIONS[-1].version,) * 2


def test_only_one_process_migrates(mysql_url: str, session: MysqlSession) -> None:
    def migrating_twice() -> Plan[None]:
        plan = TABLES.migrate()
        rows = yield next(plan)
        with closing(MysqlConnection(config(mysql_url))) as other, pytest.raises(Conflict, match="is migrating"):
            other.write(TABLES.migrate())
        plan.send(rows)

    session.write(migrating_twice())


READY = "select queue, type, `rank`, turn, id, attempt from rowcall_ready order by id"


def test_triggers_keep_what_belongs_to_a_job(session: MysqlSession) -> None:
    session.write(TABLES.migrate())

    def run(sql: str) -> list[Row]:
        return session.run(fetch(plain(sql)))

    run(
        "insert into rowcall_job (type, status, priority, tags) values ('greet', 'pending', 5, '[\"a\", \"b\"]'),"
        " ('greet ', 'scheduled', 0, null), ('greet', 'succeeded', 0, null)"
    )
    assert run(READY) == [("default", "greet", -6, 1, 1, 0)]
    assert run("select tag, status from rowcall_job_tag order by tag") == [("a", "pending"), ("b", "pending")]
    assert run("select count(*) from rowcall_job where status = 'succeeded' and finished_at = created_at") == [(1,)]
    run("update rowcall_job set status = 'pending' where id = 2")
    run("update rowcall_job set priority = 1, unfit = '0123' where id = 1")
    assert run(READY) == [("default", "greet\x1f0123", -2, 1, 1, 0), ("default", "greet ", -1, 2, 2, 0)]
    run("update rowcall_job set held = 'limit:x' where id = 1")
    columns = "job_id, lease, holder, claimed_at, attempt, worker"
    run(f"insert into rowcall_claim ({columns}) values (2, 1, 7, now(3), 1, 'w')")
    run("delete from rowcall_ready where id = 2")
    run("update rowcall_job set priority = 9 where id = 2")
    assert run(READY) == []
    assert run("select id, status from rowcall_jobs order by id") == [(1, "pending"), (2, "running"), (3, "succeeded")]
    run("delete from rowcall_job where id in (1, 2, 3)")
    assert run("select count(*) from rowcall_claim") == [(0,)]
    assert run("select count(*) from rowcall_job_tag") == [(0,)]
    assert run("select status, sum(jobs) from rowcall_tally group by status") == [("succeeded", 0)]


@pytest.mark.parametrize("fair", ["'[null,\"a\"]'", '\'["greet","a"]\''])
def test_fair_jobs_take_turns(session: MysqlSession, fair: str) -> None:
    session.write(TABLES.migrate())

    def run(sql: str) -> list[Row]:
        return session.run(fetch(plain(sql)))

    for value in (fair, fair, fair.replace('"a"', '"b"')):
        run(f"insert into rowcall_job (type, status, fair) values ('greet', 'pending', {value})")
    assert run("select id from rowcall_ready order by turn, id") == [(1,), (3,), (2,)]
    run("update rowcall_job set priority = 3 where id = 2")
    assert len(run(READY)) == 3


def test_plain_sql_cannot_write_odd_values(session: MysqlSession) -> None:
    session.write(TABLES.migrate())
    for column, value in (
        ("status", "'odd'"),
        ("type", "''"),
        ("payload", "'{'"),
        ("tags", "'{}'"),
        ("max_attempts", "0"),
        ("run_at", "'2026-02-30'"),
        ("lease", "-1"),
    ):
        given = {"type": "'greet'", column: value}
        sql = f"insert into rowcall_job ({', '.join(given)}) values ({', '.join(given.values())})"
        with pytest.raises(Exception, match=r"CONSTRAINT|constraint|Incorrect datetime"):
            session.run(fetch(plain(sql)))


def test_held_jobs_are_made_ready_without_waiting_for_jobs_that_others_change(
    mysql_url: str, session: MysqlSession
) -> None:
    with Rowcall(mysql_url) as jobs, closing(connect(mysql_url, config(mysql_url), hurried=True)) as raw:
        dialect = queue_of(jobs).dialect
        running, first, second = [jobs.enqueue("any").id for _ in range(3)]
        session.write(dialect.change(HOLD, {str(one): "limit:x" for one in (first, second)}))
        session.begin()
        session.execute(plain("select id from rowcall_job force index (primary) where id <= $1 for update", first))
        assert MysqlSession(raw, config(mysql_url)).write(dialect.unhold({"limit:x": 1})) == 1
        session.commit()
        assert session.read(fetch(plain("select id from rowcall_job where held is null order by id"))) == [
            (running,),
            (second,),
        ]
