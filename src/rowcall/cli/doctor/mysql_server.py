"""Checks of a MariaDB or MySQL server, and of the queue on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import pymysql

from rowcall.base.effects import drive
from rowcall.base.text import duration
from rowcall.cli.doctor import queue_checks
from rowcall.cli.doctor.finding import CheckResult, Level, ok, problem, unavailable, warn
from rowcall.cli.doctor.queue_checks import MOST_SHOWN
from rowcall.cli.target import Target
from rowcall.domain.config import Config, shown
from rowcall.domain.errors import SchemaMismatch, StoreUnavailable
from rowcall.drivers.mysql.connection import MysqlSession, connect
from rowcall.drivers.mysql.errors import explained
from rowcall.observe.health import LONG_TRANSACTION_SECONDS
from rowcall.store.mysql.dialect import MysqlDialect
from rowcall.store.mysql.schema import NEWEST_VERSION
from rowcall.store.mysql.words import adapted, render
from rowcall.store.statement import plain

ANSWER_SECONDS = 10
MANY_CONNECTIONS = 0.8

# times are seconds; `$1` and so on are parameters
WHO = "select current_user(), @@version, @@version_comment, @@read_only"
CLOCK = "select timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)) / 1e6"
DURABILITY = "select @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, @@binlog_format"
CONNECTIONS = """
select @@max_connections, cast(variable_value as signed) from {status} where variable_name = 'Threads_connected'
"""
SEES_ALL = "select count(*) from information_schema.user_privileges where privilege_type = 'PROCESS'"
LONG_TRANSACTIONS = """
select trx_mysql_thread_id, coalesce(user, '?'), timestampdiff(second, trx_started, now())
from information_schema.innodb_trx left join information_schema.processlist on id = trx_mysql_thread_id
where trx_mysql_thread_id <> connection_id() and trx_started < now() - interval $1 second
order by trx_started limit $2
"""
OTHER_PREFIXES = """
select prefix from (
  select left(table_name, char_length(table_name) - char_length('migration')) as prefix
  from information_schema.tables where table_schema = database() and table_name like '%migration'
) as one where exists (
  select 1 from information_schema.tables where table_schema = database() and table_name = concat(prefix, 'job_tag'))
order by 1
"""
TRIGGERS = """
select count(*) from information_schema.triggers
where trigger_schema = database() and event_object_table = '<job>' and trigger_name like '<prefix>job_%'
"""
OF_STATUS = {True: "information_schema.global_status", False: "performance_schema.global_status"}
TRIGGERS_OF_JOBS = 6


class MysqlServerConnection:
    """The doctor's connection, in a transaction that cannot write."""

    def __init__(self, raw: pymysql.Connection, config: Config) -> None:
        self._raw = raw
        self._prefix = config.table_prefix
        self._session = MysqlSession(raw, config)
        self.run = self._session.execute
        raw.query("set session transaction read only")
        self._session.limit(ANSWER_SECONDS)

    def rows(self, question: str, *parameters: object) -> list[tuple[Any, ...]]:
        sql = render(str(adapted(question)), self._prefix)
        return self.run(plain(sql, *cast("tuple[int, ...]", parameters)))

    def row(self, question: str, *parameters: object) -> tuple[Any, ...]:
        """Return the first row of a query that always has one."""
        return self.rows(question, *parameters)[0]


def check_server(target: Target) -> Iterator[CheckResult]:
    """Check a server and the queue on it, without changing anything."""
    config = target.queue.config
    assert config.server is not None
    name = shown(config.server.url)
    try:
        with contextlib.closing(connect(config.server.url, config)) as raw:
            yield from _checks(MysqlServerConnection(raw, config), name, target)
    except (StoreUnavailable, SchemaMismatch) as error:
        yield unavailable("connection", error)
    except pymysql.MySQLError as error:
        yield unavailable("connection", explained(error, name))


def _checks(server: MysqlServerConnection, name: str, target: Target) -> Iterator[CheckResult]:
    user, version, comment, read_only = server.row(WHO)
    yield ok("connection", f"{name}, as {user}")
    is_mariadb = "mariadb" in version.lower()
    yield ok("server", f"{'MariaDB' if is_mariadb else 'MySQL'} {version.partition('-')[0]} ({comment})")
    yield _standing(read_only)
    yield _clock(server, target)
    yield from _durability(server)
    yield _connections(server, is_mariadb)
    yield from _transactions(server)
    tables = _tables(server, target)
    yield tables
    if tables.level == Level.OK:
        yield from _triggers(server, target)
        yield from queue_checks.check_queue(server.rows, server.run, target)


def _standing(read_only: object) -> CheckResult:
    if read_only in (0, "OFF"):
        return ok("writable", "the server accepts writes")
    return problem("writable", "the server is read-only", "Is it a replica? Connect to the primary")


def _clock(server: MysqlServerConnection, target: Target) -> CheckResult:
    asked_at = target.queue.clock.wall()
    (there,) = server.row(CLOCK)
    answered_at = target.queue.clock.wall()
    return queue_checks.check_clocks(float(there), asked_at, answered_at)


def _durability(server: MysqlServerConnection) -> Iterator[CheckResult]:
    flushed, has_log, synced, log_format = server.row(DURABILITY)
    if flushed != 1:
        what = f"innodb_flush_log_at_trx_commit is {flushed}: a crash loses the last commits, although enqueue returned"
        yield warn("durability", what, "Set it to 1, unless these jobs may be lost")
    elif has_log and synced != 1:
        what = f"sync_binlog is {synced}: after a crash, replicas may lack the last commits, or have others"
        yield warn("durability", what, "Set it to 1")
    else:
        yield ok("durability", "commits wait for the disk")
    if has_log and log_format == "STATEMENT":
        what = "binlog_format is STATEMENT, which the server refuses for transactions at READ COMMITTED"
        yield problem("binary log", what, "Set binlog_format to MIXED or ROW")


def _connections(server: MysqlServerConnection, is_mariadb: bool) -> CheckResult:
    allowed, used = server.row(CONNECTIONS.format(status=OF_STATUS[is_mariadb]))
    if used >= allowed * MANY_CONNECTIONS:
        advice = "Lower pool_size or the number of worker processes, or raise max_connections"
        return warn("connections", f"{used} of the {allowed} connections of the server are in use", advice)
    return ok("connections", f"{used} of {allowed} in use")


def _transactions(server: MysqlServerConnection) -> Iterator[CheckResult]:
    """Find transactions that keep locks, and old versions of rows that every search reads past."""
    (sees_all,) = server.row(SEES_ALL)
    if not sees_all:
        yield ok("transactions", "not checked: this user does not have the privilege PROCESS")
        return
    open_ones = server.rows(LONG_TRANSACTIONS, LONG_TRANSACTION_SECONDS, MOST_SHOWN)
    for thread, user, seconds in open_ones:
        what = f"a transaction of {user} has been open for {duration(seconds)} (connection {thread})"
        yield warn("transactions", f"{what}: claims become slow", f"End it where it began, or run: kill {thread}")
    if not open_ones:
        yield ok("transactions", "none has been open for long")


def _tables(server: MysqlServerConnection, target: Target) -> CheckResult:
    prefix = target.queue.config.table_prefix
    version = drive(MysqlDialect(prefix).version(), server.run)
    others = [] if version.found else [name for (name,) in server.rows(OTHER_PREFIXES)]
    hint = queue_checks.prefix_hint(others, target)
    return queue_checks.check_version(version, NEWEST_VERSION, prefix, target, hint=hint)


def _triggers(server: MysqlServerConnection, target: Target) -> Iterator[CheckResult]:
    """A dump without triggers restores tables in which new jobs are never ready."""
    (count,) = server.row(TRIGGERS)
    if count < TRIGGERS_OF_JOBS:
        what = f"{count} of the {TRIGGERS_OF_JOBS} triggers of {target.queue.config.table_prefix}job are there"
        yield problem("triggers", what, "Restore a dump that has its triggers (mariadb-dump --triggers)")
