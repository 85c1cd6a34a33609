"""Checks of a queue on a PostgreSQL server: its tables, privileges, autovacuum, locks, workers."""

from __future__ import annotations

from collections.abc import Iterator

from rowcall.base.effects import drive
from rowcall.base.text import duration
from rowcall.cli.doctor import queue_checks, server_queries
from rowcall.cli.doctor.finding import CheckResult, Level, ok, warn
from rowcall.cli.doctor.queue_checks import MOST_SHOWN
from rowcall.cli.doctor.server_queries import ServerConnection
from rowcall.cli.target import Target
from rowcall.observe.health import LONG_TRANSACTION_SECONDS, MANY_DEAD_ROWS
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.postgres.schema import NEWEST_VERSION

OLD_SNAPSHOT_TRANSACTIONS = 1_000_000
LONG_NAPTIME_SECONDS = 60.0
_OFF = ("off", "false", "no", "0")

Check = tuple[str, Iterator[CheckResult]]


def check_tables(server: ServerConnection, target: Target) -> Iterator[Check]:
    """Yield each check with its name; those of the queue only if its tables exist."""
    prefix = target.queue.config.table_prefix
    yield "horizon", _horizon(server)
    schema = _schema(server, prefix, target)
    yield "tables", iter([schema])
    if schema.level == Level.OK:
        yield "locks", _locks(server, prefix)
        yield "privileges", _privileges(server)
        yield "autovacuum", _autovacuum(server, prefix)
        yield "dead rows", _dead_rows(server, prefix)
        yield "workers", queue_checks.check_queue(server.rows, server.run, target)


def _schema(server: ServerConnection, prefix: str, target: Target) -> CheckResult:
    version = drive(PostgresDialect(prefix).version(), server.run)
    where, hint = "", ""
    if version.found:
        where = f", in the schema {server.row(server_queries.SCHEMA)[0]}"
    elif elsewhere := [name for (name,) in server.rows(server_queries.TABLES_ELSEWHERE)]:
        hint = f"; or add the schema that has them to the search_path of {server.user}: {', '.join(elsewhere)}"
    else:
        hint = queue_checks.prefix_hint([name for (name,) in server.rows(server_queries.OTHER_PREFIXES)], target)
    return queue_checks.check_version(version, NEWEST_VERSION, prefix, target, where=where, hint=hint)


def _privileges(server: ServerConnection) -> Iterator[CheckResult]:
    missing = server.rows(server_queries.MISSING_PRIVILEGES)
    if not missing:
        yield ok("privileges", f"{server.user} may enqueue and work")
        return
    said = "; ".join(f"{privileges} on {table}" for privileges, table in missing)
    yield warn("privileges", f"{server.user} may not {said}", "Grant it, unless this user neither enqueues nor works")


def _autovacuum(server: ServerConnection, prefix: str) -> Iterator[CheckResult]:
    enabled, counted, naptime_seconds = server.row(server_queries.VACUUM_SETTINGS)
    table_settings = dict(server.rows(server_queries.TABLE_SETTINGS))
    if not enabled or not counted:
        setting = "track_counts" if enabled else "autovacuum"
        yield warn(
            "autovacuum", f"{setting} is off on this server: dead rows stay, and claims become slow", "Turn it on"
        )
    elif table_settings.get("autovacuum_enabled", "on").lower() in _OFF:
        what = f"it is off for {prefix}job: dead rows stay, claims become slow"
        yield warn("autovacuum", what, f"alter table {prefix}job reset (autovacuum_enabled)")
    elif naptime_seconds > LONG_NAPTIME_SECONDS:
        what = f"it runs only every {duration(naptime_seconds)} (autovacuum_naptime)"
        yield warn("autovacuum", what, "Set it to 1min or less, or 10s for thousands of jobs per second")
    else:
        yield ok("autovacuum", f"on; runs every {duration(naptime_seconds)} (autovacuum_naptime)")


def _dead_rows(server: ServerConnection, prefix: str) -> Iterator[CheckResult]:
    live, dead, vacuumed_seconds, table_bytes, index_bytes = server.row(server_queries.DEAD_ROWS)
    size = f"{table_bytes / 1024**2:,.0f} MB and {index_bytes / 1024**2:,.0f} MB of indexes"
    vacuumed = "never" if vacuumed_seconds is None else f"{duration(vacuumed_seconds)} ago"
    summary = f"{dead:,} in {prefix}job, and {live:,} live ones; {size}; last vacuum {vacuumed}"
    if dead < MANY_DEAD_ROWS:
        yield ok("dead rows", summary)
        return
    yield warn(
        "dead rows",
        summary,
        "An old transaction keeps them (see horizon), or autovacuum is too slow:"
        " raise autovacuum_max_workers, lower autovacuum_naptime",
    )


def _horizon(server: ServerConnection) -> Iterator[CheckResult]:
    """Find what still sees old rows: rows that died later cannot be removed."""
    found = [*_transactions(server), *_replicas(server)]
    yield from found
    if not found:
        (sees_all,) = server.row(server_queries.SEES_ALL)
        blind = "" if sees_all else f" ({server.user} sees only its own sessions; pg_monitor sees all)"
        yield ok("horizon", f"nothing keeps dead rows from being removed{blind}")


def _transactions(server: ServerConnection) -> Iterator[CheckResult]:
    for pid, user, application, state, seconds in server.rows(
        server_queries.LONG_TRANSACTIONS, LONG_TRANSACTION_SECONDS, MOST_SHOWN
    ):
        who = f"{user}, {application}" if application else user
        yield warn(
            "horizon",
            f"a transaction has been open for {duration(seconds)} (process {pid}, {who}, {state}):"
            " rows that died since then stay",
            f"End it where it began, or run: select pg_terminate_backend({pid})",
        )
    for gid, owner, seconds in server.rows(server_queries.PREPARED_TRANSACTIONS, LONG_TRANSACTION_SECONDS, MOST_SHOWN):
        what = f"the prepared transaction {gid!r} of {owner} is {duration(seconds)} old: rows that died since then stay"
        yield warn("horizon", what, "Finish it: commit prepared, or rollback prepared")


def _replicas(server: ServerConnection) -> Iterator[CheckResult]:
    for slot, active, age in server.rows(server_queries.REPLICATION_SLOTS, OLD_SNAPSHOT_TRANSACTIONS, MOST_SHOWN):
        yield warn(
            "horizon",
            f"the replication slot {slot} holds back vacuum by {age:,} transactions"
            f"{'' if active else ', and is not in use'}",
            "Check its standby" if active else f"If it is no longer needed: select pg_drop_replication_slot('{slot}')",
        )
    for standby, age in server.rows(server_queries.STANDBYS, OLD_SNAPSHOT_TRANSACTIONS, MOST_SHOWN):
        what = f"a query on the standby {standby} holds back vacuum by {age:,} transactions (hot_standby_feedback)"
        yield warn("horizon", what, "End the long query there")


def _locks(server: ServerConnection, prefix: str) -> Iterator[CheckResult]:
    blocked = server.rows(server_queries.BLOCKED)
    if not blocked:
        yield ok("locks", f"no session waits for {prefix}job")
        return
    holders = sorted({pids for _, pids in blocked})
    yield warn(
        "locks",
        f"{len(blocked)} {'session waits' if len(blocked) == 1 else 'sessions wait'} for a lock on {prefix}job,"
        f" held by process {', '.join(holders)}",
        "If the same process keeps it, end its transaction (ALTER TABLE, LOCK)",
    )
