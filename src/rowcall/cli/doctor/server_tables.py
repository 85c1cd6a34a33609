"""Checks of a queue on a PostgreSQL server: its tables, whether they are kept clean, who works on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rowcall.cli.doctor import server_sql, service
from rowcall.cli.doctor.finding import Finding, Level, ok, warn
from rowcall.cli.doctor.look import Look
from rowcall.cli.doctor.service import MOST_SHOWN, Asked, SeenWorker
from rowcall.cli.present.output import span
from rowcall.domain.config import Config
from rowcall.drivers.runner import run
from rowcall.observe.health import LONG_TRANSACTION_SECONDS, MANY_DEAD_ROWS
from rowcall.overview.liveness import liveness
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.postgres.schema import NEWEST_VERSION

OLD_SNAPSHOT_TRANSACTIONS = 1_000_000
LONG_NAPTIME_SECONDS = 60.0
_OFF = ("off", "false", "no", "0")

Check = tuple[str, Callable[[], Iterator[Finding]]]


def check_tables(look: Look, config: Config, asked: Asked) -> Iterator[Check]:
    """Each check with its name; those of the queue only where its tables are there."""
    yield "horizon", lambda: _horizon(look)
    schema = _schema(look, config.table_prefix, asked)
    yield "tables", lambda: iter([schema])
    if schema.level == Level.OK:
        yield "locks", lambda: _locks(look, config.table_prefix)
        yield "privileges", lambda: _privileges(look)
        yield "autovacuum", lambda: _autovacuum(look, config.table_prefix)
        yield "dead rows", lambda: _dead_rows(look, config.table_prefix)
        yield "workers", lambda: _service(look, asked)


def _schema(look: Look, prefix: str, asked: Asked) -> Finding:
    version = run(PostgresDialect(prefix).version(), lambda one: look.rows(one.sql, *one.parameters))
    where, hint = "", ""
    if version.found:
        where = f", in the schema {look.row(server_sql.SCHEMA)[0]}"
    elif elsewhere := [name for (name,) in look.rows(server_sql.TABLES_ELSEWHERE)]:
        hint = f"; or put the schema that has them on the search_path of {look.user}: {', '.join(elsewhere)}"
    else:
        hint = asked.prefix_hint([name for (name,) in look.rows(server_sql.OTHER_PREFIXES)])
    return service.check_version(version, NEWEST_VERSION, prefix, asked, where=where, hint=hint)


def _privileges(look: Look) -> Iterator[Finding]:
    missing = look.rows(server_sql.MISSING_PRIVILEGES)
    if not missing:
        yield ok("privileges", f"{look.user} may enqueue and work")
        return
    said = "; ".join(f"{privileges} on {table}" for privileges, table in missing)
    yield warn("privileges", f"{look.user} may not {said}", "Grant that, unless this user need not enqueue or work")


def _autovacuum(look: Look, prefix: str) -> Iterator[Finding]:
    enabled, counted, naptime_seconds = look.row(server_sql.VACUUM_SETTINGS)
    table_settings = dict(look.rows(server_sql.TABLE_SETTINGS))
    if not enabled or not counted:
        setting = "track_counts" if enabled else "autovacuum"
        yield warn("autovacuum", f"{setting} is off on this server: dead rows stay, and claims slow down", "Turn it on")
    elif table_settings.get("autovacuum_enabled", "on").lower() in _OFF:
        what = f"it is off for {prefix}job: dead rows stay, and claims slow down"
        yield warn("autovacuum", what, f"alter table {prefix}job reset (autovacuum_enabled)")
    elif naptime_seconds > LONG_NAPTIME_SECONDS:
        what = f"the server looks for work only every {span(naptime_seconds)} (autovacuum_naptime)"
        yield warn("autovacuum", what, "Set it to 1min or less; 10s where thousands of jobs a second go through")
    else:
        yield ok("autovacuum", f"on; looks for work every {span(naptime_seconds)} (autovacuum_naptime)")


def _dead_rows(look: Look, prefix: str) -> Iterator[Finding]:
    live, dead, vacuumed_seconds, table_bytes, index_bytes = look.row(server_sql.DEAD_ROWS)
    size = f"{table_bytes / 1024**2:,.0f} MB and {index_bytes / 1024**2:,.0f} MB of indexes"
    vacuumed = "never yet" if vacuumed_seconds is None else f"{span(vacuumed_seconds)} ago"
    said = f"{dead:,} in {prefix}job, beside {live:,} live ones; {size}; vacuumed {vacuumed}"
    if dead < MANY_DEAD_ROWS:
        yield ok("dead rows", said)
        return
    yield warn(
        "dead rows",
        said,
        "Somebody keeps them from being cleared away (see horizon), or autovacuum does not keep up:"
        " raise autovacuum_max_workers, lower autovacuum_naptime",
    )


def _horizon(look: Look) -> Iterator[Finding]:
    """Who still sees the past: what died after that cannot be cleared away."""
    found = [*_transactions(look), *_replicas(look)]
    yield from found
    if not found:
        (sees_all,) = look.row(server_sql.SEES_ALL)
        blind = "" if sees_all else f" ({look.user} sees its own sessions only; pg_monitor sees all)"
        yield ok("horizon", f"nobody keeps dead rows from being cleared away{blind}")


def _transactions(look: Look) -> Iterator[Finding]:
    for pid, user, application, state, seconds in look.rows(
        server_sql.LONG_TRANSACTIONS, LONG_TRANSACTION_SECONDS, MOST_SHOWN
    ):
        who = f"{user}, {application}" if application else user
        yield warn(
            "horizon",
            f"a transaction has been open for {span(seconds)} (process {pid}, {who}, {state}):"
            " rows that died since then stay",
            f"End it where it was begun; or: select pg_terminate_backend({pid})",
        )
    for gid, owner, seconds in look.rows(server_sql.PREPARED_TRANSACTIONS, LONG_TRANSACTION_SECONDS, MOST_SHOWN):
        yield warn(
            "horizon",
            f"the prepared transaction {gid!r} of {owner} is {span(seconds)} old: rows that died since then stay",
            "Finish it: commit prepared, or rollback prepared",
        )


def _replicas(look: Look) -> Iterator[Finding]:
    for slot, active, age in look.rows(server_sql.REPLICATION_SLOTS, OLD_SNAPSHOT_TRANSACTIONS, MOST_SHOWN):
        yield warn(
            "horizon",
            f"the replication slot {slot} holds back the clean-up by {age:,} transactions"
            f"{'' if active else ', and nobody uses it'}",
            "See what its standby is at" if active else f"If nobody will: select pg_drop_replication_slot('{slot}')",
        )
    for standby, age in look.rows(server_sql.STANDBYS, OLD_SNAPSHOT_TRANSACTIONS, MOST_SHOWN):
        yield warn(
            "horizon",
            f"a query on the standby {standby} holds back the clean-up by {age:,} transactions (hot_standby_feedback)",
            "End the long query there",
        )


def _locks(look: Look, prefix: str) -> Iterator[Finding]:
    blocked = look.rows(server_sql.BLOCKED)
    if not blocked:
        yield ok("locks", f"nobody waits for {prefix}job")
        return
    holders = sorted({pids for _, pids in blocked})
    yield warn(
        "locks",
        f"{len(blocked)} {'session waits' if len(blocked) == 1 else 'sessions wait'} for a lock on {prefix}job,"
        f" held by process {', '.join(holders)}",
        "Nothing to do if it comes and goes; if the same process stays, end its transaction (ALTER TABLE, LOCK)",
    )


def _service(look: Look, asked: Asked) -> Iterator[Finding]:
    workers = [
        SeenWorker(name, queues, liveness(lock_path, silent_seconds, lease_seconds), silent_seconds, running)
        for name, queues, lock_path, lease_seconds, silent_seconds, running in look.rows(server_sql.WORKERS)
    ]
    living = service.alive(workers)
    yield from service.check_workers(workers, asked)
    waiting, longest_seconds = look.row(server_sql.DUE)
    yield service.check_waiting(waiting, longest_seconds, bool(living), asked)
    yield from service.check_pauses(look.rows(server_sql.PAUSED), asked)
    yield from service.check_limits(look.rows(server_sql.KEPT_SLOTS))
    yield from service.check_queues(look.rows(server_sql.BY_QUEUE), living)
    yield from service.check_tasks(look.rows(server_sql.BY_TYPE), asked)
    (mismatched,) = look.row(server_sql.MISMATCHED_COUNT)
    yield from service.check_mismatched(mismatched, next(iter(look.rows(server_sql.MISMATCHED)), None))
    newest = look.rows(server_sql.NEWEST)
    yield service.check_future(newest[0][0] if newest else 0.0)
