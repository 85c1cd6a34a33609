"""Checks of a PostgreSQL server: whether it answers, what it is, how it is set, and whether it can tell workers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import psycopg

from rowcall.cli.doctor import server_sql
from rowcall.cli.doctor.finding import Finding, ok, problem, warn
from rowcall.cli.doctor.look import ANSWER_SECONDS, Look, connected
from rowcall.cli.doctor.server_tables import check_tables
from rowcall.cli.doctor.service import Asked
from rowcall.cli.present.output import span
from rowcall.domain.config import Config, Server, shown
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.postgres.connection import OLDEST_SERVER, is_pooled
from rowcall.drivers.postgres.errors import explained
from rowcall.observe.health import CLOCK_SECONDS

HINT_SECONDS = 3.0
MANY_CONNECTIONS = 0.8
FULL_NOTIFICATION_QUEUE = 0.1


def check_server(config: Config, asked: Asked) -> Iterator[Finding]:
    """Look at a server and the queue on it, without changing anything."""
    assert config.server is not None
    name = shown(config.server.url)
    try:
        with connected(config.server.url) as raw:
            look = Look(raw, config.table_prefix)
            yield ok("connection", f"{name}, as {look.user}")
            yield from _checks(look, config, asked)
    except StoreUnavailable as error:
        yield problem("connection", error.problem, error.advice)
    except psycopg.Error as error:
        said = explained(error, name)
        what, advice = (said.problem, said.advice) if isinstance(said, StoreUnavailable) else (str(said), "")
        yield problem("connection", what, advice or "Nothing further was looked at")


def _checks(look: Look, config: Config, asked: Asked) -> Iterator[Finding]:
    assert config.server is not None
    version = check_version(look)
    yield version
    if look.server_version < OLDEST_SERVER:
        return
    in_recovery, read_only = look.row(server_sql.STANDING)
    yield _standing(in_recovery, read_only)
    yield _clock(look)
    yield from _asked("settings", lambda: _settings(look, config))
    yield from _asked("connections", lambda: _connections(look))
    yield _pooler(look, config.server)
    if not in_recovery and (config.server.listen_url is not None or not look.is_pooled):
        yield from _listen(look, config.server)
    for check, findings in check_tables(look, config, asked):
        yield from _asked(check, findings)


def _asked(check: str, findings: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What cannot be asked does not keep the rest from being asked."""
    try:
        yield from findings()
    except psycopg.errors.QueryCanceled:
        yield warn(check, f"no answer within {ANSWER_SECONDS} s", "The server is very busy, or the table very large")
    except psycopg.errors.LockNotAvailable:
        yield warn(check, "the table is locked, so this could not be looked at", "See locks")
    except psycopg.errors.InsufficientPrivilege as error:
        yield warn(check, str(error.diag.message_primary), "Ask as a user who may see this")


def check_version(look: Look) -> Finding:
    said = f"PostgreSQL {look.server_version_text}"
    if look.server_version < OLDEST_SERVER:
        return problem("server", f"{said} is too old: 13 is the oldest that works", "Upgrade the server")
    return ok("server", said)


def _standing(in_recovery: bool, read_only: bool) -> Finding:
    if in_recovery:
        return problem(
            "writable", "this is a standby, which can only be read", "Connect to the primary; if that failed, promote"
        )
    if read_only:
        return problem(
            "writable",
            "default_transaction_read_only is on",
            "Somebody has set it for the server, the database or this user: take it back",
        )
    return ok("writable", "this is a primary")


def _clock(look: Look) -> Finding:
    """The server's clock rules when jobs are due; this machine's stands in logs, and in a run_at that it works out."""
    there, asked_at, answered_at = look.at_once(server_sql.CLOCK)
    here = (asked_at + answered_at) / 2
    unsure = (answered_at - asked_at) / 2
    ahead = there - here
    if abs(ahead) - unsure < CLOCK_SECONDS:
        return ok("clock", f"the server's and this machine's agree, within {span(max(0.001, abs(ahead) + unsure))}")
    return warn(
        "clock",
        f"the server's is {span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this machine's",
        "Run NTP on both. Jobs are due by the server's; a run_at that an app works out by its own is off by as much",
    )


def _settings(look: Look, config: Config) -> Iterator[Finding]:
    fsync, full_page_writes, synchronous_commit, encoding = look.row(server_sql.SETTINGS)
    off = [name for name, value in (("fsync", fsync), ("full_page_writes", full_page_writes)) if not value]
    if off:
        what = f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: a power cut may take the whole database"
        yield warn("durability", what, "Turn on what is off, unless all on this server may be lost")
    elif config.durability == "normal":
        yield ok("durability", 'as asked for with durability="normal": a crash of the server may take the last commits')
    elif synchronous_commit == "off":
        what = "synchronous_commit is off: a crash of the server takes the last commits, whatever enqueue returned"
        yield warn("durability", what, "Turn it on for the server, the database or this user")
    else:
        yield ok("durability", f"commits wait for the disk (synchronous_commit is {synchronous_commit})")
    if encoding != "UTF8":
        what = f"the database's encoding is {encoding}, which does not have all letters"
        yield warn("encoding", what, "Jobs with other letters are refused: make the database with encoding 'UTF8'")


def _connections(look: Look) -> Iterator[Finding]:
    found = look.rows(server_sql.CONNECTIONS)
    for what, used, allowed, _ in found:
        if used >= allowed * MANY_CONNECTIONS:
            yield warn(
                "connections",
                f"{used} of the {allowed} that {what} allows are in use",
                "Lower pool_size or the number of worker processes, raise the limit, or put a pooler in between",
            )
            return
    _, used, allowed, ours = found[0]
    yield ok("connections", f"{used} of {allowed} in use, {ours} of them by Rowcall")


def _pooler(look: Look, server: Server) -> Finding:
    if not look.is_pooled:
        return ok("pooler", "none in between")
    if server.listen_url is not None:
        return ok("pooler", "there is one in between, and listen_url leads past it")
    return warn(
        "pooler",
        "there is one in between, so idle workers cannot be told of new jobs: they look every second",
        "Give Rowcall(listen_url=…) a URL that leads past it; an app that has one is named instead of --url",
    )


def _listen(look: Look, server: Server) -> Iterator[Finding]:
    """Send a hint the way an enqueue does, and hear it the way a worker does."""
    channel = f"rowcall_doctor_{secrets.token_hex(8)}"
    try:
        with connected(server.listen_url or server.url) as listener:
            if is_pooled(listener):
                yield warn("listen", "listen_url leads to a pooler too", "Name the server itself there")
                return
            listener.execute(f'listen "{channel}"')
            _, asked_at, answered_at = look.at_once(server_sql.NOTIFY, channel)
            heard = list(listener.notifies(timeout=HINT_SECONDS, stop_after=1))
    except StoreUnavailable as error:
        yield warn("listen", error.problem, error.advice)
        return
    if not heard:
        yield warn(
            "listen",
            f"a hint did not arrive within {HINT_SECONDS:g} s",
            "Does listen_url name the same server and the same database?",
        )
        return
    yield ok("listen", f"hints arrive (asked and answered in {span(answered_at - asked_at)})")
    (usage,) = look.row(server_sql.NOTIFICATION_QUEUE)
    if usage > FULL_NOTIFICATION_QUEUE:
        yield warn(
            "notifications",
            f"the queue of notifications is {usage:.0%} full",
            "A session that listens is in a transaction that does not end: find it in pg_stat_activity, and end it",
        )
