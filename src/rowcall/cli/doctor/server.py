"""Checks of a PostgreSQL server: connection, version, clock, settings, pooler, notifications."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import psycopg
from psycopg.conninfo import conninfo_to_dict

from rowcall.base.text import duration
from rowcall.cli.doctor import queue_checks, server_queries
from rowcall.cli.doctor.finding import CheckResult, ok, problem, unavailable, warn
from rowcall.cli.doctor.server_queries import ANSWER_SECONDS, ServerConnection, connected
from rowcall.cli.doctor.server_tables import check_tables
from rowcall.cli.target import Target
from rowcall.domain.config import Config, Server, shown
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.postgres.connection import OLDEST_SERVER, is_pooled
from rowcall.drivers.postgres.errors import explained

NOTIFICATION_SECONDS = 3.0
MANY_CONNECTIONS = 0.8
FULL_NOTIFICATION_QUEUE = 0.1


def check_server(target: Target) -> Iterator[CheckResult]:
    """Check a server and the queue on it, without changing anything."""
    config = target.queue.config
    assert config.server is not None
    name = shown(config.server.url)
    try:
        with connected(config.server.url) as raw:
            server = ServerConnection(raw, config.table_prefix, target.queue.clock)
            yield ok("connection", f"{name}, as {server.user}")
            yield from _checks(server, config, target)
    except StoreUnavailable as error:
        yield unavailable("connection", error)
    except psycopg.Error as error:
        yield unavailable("connection", explained(error, name))


def _checks(server: ServerConnection, config: Config, target: Target) -> Iterator[CheckResult]:
    assert config.server is not None
    version = check_version(server)
    yield version
    if server.server_version < OLDEST_SERVER:
        return
    in_recovery, read_only = server.row(server_queries.STANDING)
    yield _standing(in_recovery, read_only)
    yield from _guarded("hosts", _hosts(server, config.server))
    yield _clock(server)
    yield from _guarded("settings", _settings(server, config))
    yield from _guarded("connections", _connections(server))
    yield _pooler(server, config.server)
    if not in_recovery and (config.server.listen_url is not None or not server.is_pooled):
        yield from _listen(server, config.server)
    for check, findings in check_tables(server, target):
        yield from _guarded(check, findings)


def _guarded(check: str, findings: Iterator[CheckResult]) -> Iterator[CheckResult]:
    """Yield the findings of a check. If it fails, the other checks continue."""
    try:
        yield from findings
    except psycopg.errors.QueryCanceled:
        yield warn(
            check, f"no answer within {duration(ANSWER_SECONDS)}", "The server is very busy, or the table very large"
        )
    except psycopg.errors.LockNotAvailable:
        yield warn(check, "the table is locked, so this was not checked", "See locks")
    except psycopg.errors.InsufficientPrivilege as error:
        yield warn(check, str(error.diag.message_primary), "Run the doctor as a user with this privilege")


def check_version(server: ServerConnection) -> CheckResult:
    version = f"PostgreSQL {server.server_version_text}"
    if server.server_version < OLDEST_SERVER:
        return problem("server", f"{version} is too old; 13 or newer is required", "Upgrade the server")
    return ok("server", version)


def _standing(in_recovery: bool, read_only: bool) -> CheckResult:
    if in_recovery:
        return problem(
            "writable",
            "this is a read-only standby",
            "Connect to the primary; if that failed, promote this one. A URL of all hosts with"
            " target_session_attrs=read-write leads to the primary",
        )
    if read_only:
        what = "default_transaction_read_only is on"
        return problem("writable", what, "It is set for the server, the database or this user: reset it there")
    return ok("writable", "this is a primary")


def _hosts(server: ServerConnection, config: Server) -> Iterator[CheckResult]:
    """A client connects to the first host that replies, unless the URL says which one it needs."""
    for name, url in (("the URL", config.url), ("listen_url", config.listen_url)):
        hosts = _hosts_of(url) if url is not None else 1
        if hosts > 1 and not _wants_primary(url or ""):
            what = f"{name} names {hosts} hosts without target_session_attrs=read-write, so it may lead to a standby"
            yield warn("hosts", what, f"Add target_session_attrs=read-write to {name}")
        elif hosts > 1 and name == "the URL":
            (replicated,) = server.row(server_queries.IS_REPLICATED)
            commits = "wait for a standby" if replicated else "wait for no standby: a failover may lose the last ones"
            yield ok("hosts", f"{hosts}, of which it connects to the primary; commits {commits}")


def _hosts_of(url: str) -> int:
    options = conninfo_to_dict(url)
    return max(len(str(options.get(name) or "").split(",")) for name in ("host", "hostaddr"))


def _wants_primary(url: str) -> bool:
    wanted = conninfo_to_dict(url).get("target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS")
    return wanted in ("read-write", "primary")


def _clock(server: ServerConnection) -> CheckResult:
    there, asked_at, answered_at = server.timed(server_queries.CLOCK)
    return queue_checks.check_clocks(there, asked_at, answered_at)


def _settings(server: ServerConnection, config: Config) -> Iterator[CheckResult]:
    fsync, full_page_writes, synchronous_commit, encoding = server.row(server_queries.SETTINGS)
    off = [name for name, value in (("fsync", fsync), ("full_page_writes", full_page_writes)) if not value]
    if off:
        what = f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: a power failure may destroy the database"
        yield warn("durability", what, "Turn it on, unless all data on this server may be lost")
    elif config.durability == "normal":
        yield ok("durability", 'durability="normal", as configured: a crash of the server may lose the last commits')
    elif synchronous_commit == "off":
        what = "synchronous_commit is off: a crash of the server loses the last commits, although enqueue returned"
        yield warn("durability", what, "Turn it on for the server, the database or this user")
    else:
        yield ok("durability", f"commits wait for the disk (synchronous_commit is {synchronous_commit})")
    if encoding != "UTF8":
        what = f"the database's encoding is {encoding}, which does not have all characters"
        yield warn("encoding", what, "Jobs with other characters are refused: create the database with encoding 'UTF8'")


def _connections(server: ServerConnection) -> Iterator[CheckResult]:
    limits = server.rows(server_queries.CONNECTIONS)
    for what, used, allowed, _ in limits:
        if used >= allowed * MANY_CONNECTIONS:
            what = f"{used} of the {allowed} connections that {what} allows are in use"
            advice = "Lower pool_size or the number of worker processes, raise the limit, or use a pooler"
            yield warn("connections", what, advice)
            return
    _, used, allowed, ours = limits[0]
    yield ok("connections", f"{used} of {allowed} in use, {ours} of them by Rowcall")


def _pooler(server: ServerConnection, config: Server) -> CheckResult:
    if not server.is_pooled:
        return ok("pooler", "none")
    if config.listen_url is not None:
        return ok("pooler", "there is one, and listen_url bypasses it")
    what = "there is one, so idle workers cannot be notified of new jobs: they check every second"
    advice = "Set Rowcall(listen_url=…) to a URL that bypasses it; if the app sets it, name the app instead of --url"
    return warn("pooler", what, advice)


def _listen(server: ServerConnection, config: Server) -> Iterator[CheckResult]:
    """Send a notification as an enqueue does, and receive it as a worker does."""
    channel = f"rowcall_doctor_{secrets.token_hex(8)}"
    try:
        with connected(config.listen_url or config.url) as listener:
            if is_pooled(listener):
                yield warn("listen", "listen_url leads to a pooler too", "Set it to the address of the server itself")
                return
            listener.execute(f'listen "{channel}"')
            _, asked_at, answered_at = server.timed(server_queries.NOTIFY, channel)
            heard = list(listener.notifies(timeout=NOTIFICATION_SECONDS, stop_after=1))
    except StoreUnavailable as error:
        yield warn("listen", error.problem, error.advice)
        return
    if not heard:
        what = f"a notification did not arrive within {duration(NOTIFICATION_SECONDS)}"
        advice = "Check that listen_url names the same server and the same database"
        if config.listen_url is None:
            advice = (
                "Something between here and the server drops them, so idle workers find jobs only by their checks, up"
                " to five seconds later: set Rowcall(listen_url=…) to the server itself"
            )
        yield warn("listen", what, advice)
        return
    yield ok("listen", f"notifications arrive (round trip {duration(answered_at - asked_at)})")
    (usage,) = server.row(server_queries.NOTIFICATION_QUEUE)
    if usage > FULL_NOTIFICATION_QUEUE:
        what = f"the queue of notifications is {usage:.0%} full"
        advice = "A listening session has a transaction that does not end: find it in pg_stat_activity, and end it"
        yield warn("notifications", what, advice)
