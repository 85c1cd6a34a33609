"""A standby of a server: a copy that follows it, by a replication slot, and that reports what it still reads."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from rowcall.testing.postgres import FAST_SETTINGS, PostgresServer
from rowcall.testing.postgres_programs import SystemUser, find_programs
from tests.support import eventually

SLOT = "following"


@contextmanager
def standby_of(primary: PostgresServer) -> Iterator[PostgresServer]:
    """It has what the primary had when this was called. At its end the slot is unused, and still there, if the primary
    still runs.
    """
    user = SystemUser.for_servers()
    with tempfile.TemporaryDirectory(prefix="rowcall-standby-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        user.own(folder)
        program = find_programs(user, copies=folder) / "pg_basebackup"
        options = ["--checkpoint=fast", "--write-recovery-conf", "--create-slot", f"--slot={SLOT}", "--no-sync"]
        user.run([str(program), f"--dbname={primary.url()}", f"--pgdata={folder / 'data'}", *options], cwd=folder)
        followed = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1"}
        settings = {**FAST_SETTINGS, **followed, "max_prepared_transactions": "10"}  # no less than the primary's
        with PostgresServer(folder, settings=settings) as standby:
            yield standby
    if primary.running:
        _await_slot(primary, "not active")


def promote(standby: PostgresServer) -> None:
    """Make a standby a primary, as `pg_ctl` does it, and wait until it is one."""
    user = SystemUser.for_servers()
    program = find_programs(user, copies=standby.data.parent) / "pg_ctl"
    user.run([str(program), "promote", "--wait", f"--pgdata={standby.data}"], cwd=standby.data.parent)


def await_feedback(primary: PostgresServer) -> None:
    """The primary knows what its standby still reads."""
    _await_slot(primary, "xmin is not null")


def _await_slot(primary: PostgresServer, condition: str) -> None:
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        query = f"select 1 from pg_replication_slots where {condition}".encode()
        eventually(lambda: connection.execute(query).fetchone(), message=f"a slot that is {condition}")
