"""The database and the machine: disk, clock, what the server says about itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from rowcall.base.text import duration
from rowcall.base.times import milliseconds_of
from rowcall.domain.attention import Finding
from rowcall.observe.health import CLOCK_SECONDS, LITTLE_SPACE_BYTES, LONG_TRANSACTION_SECONDS, OVERSIZED_WAL_BYTES
from rowcall.overview.attention import thresholds
from rowcall.overview.attention.situation import APP, Situation, finding
from rowcall.overview.formats import size
from rowcall.queue import Queue
from rowcall.store.queries.attention import NEWEST_CREATED, SERVER_STATE
from rowcall.store.queries.counts import HEALTH
from rowcall.store.statement import Plan


class FileFacts(NamedTuple):
    """What the file system says about a SQLite file, and how far the database's clock is ahead; None if not known."""

    wal_bytes: int | None = None
    free_bytes: int | None = None
    clock_ahead_seconds: float | None = None
    unsure_seconds: float = 0.0


def file_facts(queue: Queue) -> FileFacts:
    """Look at the file. The disk of a server is not visible from here."""
    path = queue.database.path
    if queue.config.server is not None or queue.config.in_memory:
        return FileFacts()
    wal = f"{path}-wal"
    return FileFacts(
        os.path.getsize(wal) if os.path.exists(wal) else None,
        shutil.disk_usage(os.path.dirname(os.path.abspath(path))).free,
    )


def about_files(facts: FileFacts) -> Iterator[Finding]:
    free = facts.free_bytes
    if free is not None and free < LITTLE_SPACE_BYTES:
        code = "no_space" if free < thresholds.NO_SPACE_BYTES else "little_space"
        yield finding(
            code,
            f"only {size(free)} are free on the disk of the database",
            "Free disk space: enqueueing fails when the disk is full;"
            f" delete finished jobs: rowcall prune {APP}; return their space to the disk: rowcall vacuum {APP}",
            link="/storage",
            free_bytes=free,
        )
    if facts.wal_bytes is not None and facts.wal_bytes > OVERSIZED_WAL_BYTES:
        yield finding(
            "wal",
            f"the write-ahead log has {size(facts.wal_bytes)}",
            "Find and end the read transaction that has been open for long: then the log shrinks",
            link="/storage",
            wal_bytes=facts.wal_bytes,
        )
    ahead = facts.clock_ahead_seconds
    if ahead is not None and abs(ahead) - facts.unsure_seconds > CLOCK_SECONDS:
        yield finding(
            "clock",
            f"the database's clock is {duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this machine's",
            "Run NTP on both: jobs are due by the database's clock",
            ahead_seconds=round(ahead, 3),
        )


def clock(situation: Situation) -> Plan[list[Finding]]:
    """Find times in the future: a clock was set back, or that of another host is ahead."""
    created = [at for at in (yield from situation.dialect.ask(NEWEST_CREATED)) if at is not None]
    heartbeats = [milliseconds_of(worker.heartbeat_at) for worker in situation.workers]
    ahead_seconds = (max([*created, *heartbeats], default=0) - situation.at_ms) / 1000
    if ahead_seconds < thresholds.FUTURE_SECONDS:
        return []
    what = "a job was created" if max(created, default=0) >= max(heartbeats, default=0) else "a heartbeat was sent"
    return [
        finding(
            "clock",
            f"{what} {duration(ahead_seconds)} in the future",
            "A clock was set back, or another host's is ahead: run NTP on all hosts (timedatectl, chronyc tracking)",
            ahead_seconds=round(ahead_seconds, 3),
        )
    ]


def server(situation: Situation) -> Plan[list[Finding]]:
    findings = []
    for state in (yield from situation.dialect.ask(SERVER_STATE)):
        if state.read_only:
            message = "the server is read-only: nothing can be enqueued, claimed or ended"
            advice = f"Connect to the primary; if that failed, promote this standby; see: rowcall doctor {APP}"
            findings.append(finding("read_only", message, advice, server=situation.queue.database.name))
        if state.sessions >= state.most_sessions * thresholds.SESSIONS_SHARE:
            findings.append(
                finding(
                    "sessions",
                    f"{state.sessions} of the {state.most_sessions} connections that the server allows are in use",
                    "Lower pool_size or the number of worker processes, raise the limit, or use a pooler",
                    sessions=state.sessions,
                    most_sessions=state.most_sessions,
                )
            )
    for health in (yield from situation.dialect.ask(HEALTH)):
        if health.oldest_transaction_seconds > LONG_TRANSACTION_SECONDS:
            findings.append(
                finding(
                    "long_transaction",
                    f"a transaction has been open for {duration(health.oldest_transaction_seconds)}"
                    f" (process {health.oldest_transaction_pid}): rows that died since then stay",
                    f"End it where it began; see its user and application: rowcall doctor {APP}",
                    pid=health.oldest_transaction_pid,
                    seconds=round(health.oldest_transaction_seconds),
                )
            )
        if health.dead_rows is not None and health.dead_rows >= thresholds.DEAD_ROWS:
            findings.append(
                finding(
                    "dead_rows",
                    f"the table of jobs has {health.dead_rows:,} dead rows",
                    f"Autovacuum is too slow or blocked; see by what: rowcall doctor {APP}",
                    dead_rows=health.dead_rows,
                )
            )
    return findings
