"""A connection that a test leaves to the next one is as new, and the test that closed it cannot use it."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from rowcall.domain.config import Config
from rowcall.drivers.postgres.connection import OwnConnection, options_for
from tests.kept_connections import KeptConnections


def test_it_is_opened_again_as_new_and_the_closed_object_stays_closed(postgres_server_url: str) -> None:
    with closing(KeptConnections()) as kept:
        kept.keep(postgres_server_url)
        first = OwnConnection.connect(postgres_server_url, **options_for(postgres_server_url, Config()))
        pid, cursor = first.info.backend_pid, first.cursor()
        first.execute("select set_config('lock_timeout', '7s', false), pg_advisory_lock(7)")
        first.execute("listen something")
        first.close()
        assert first.closed
        assert kept.pids(postgres_server_url) == [pid]

        second = OwnConnection.connect(postgres_server_url, **options_for(postgres_server_url, Config()))
        assert second.info.backend_pid == pid
        assert second.execute("select pg_listening_channels()").fetchall() == []
        assert second.execute("select current_setting('lock_timeout')").fetchone() == ("0",)
        assert second.execute("select from pg_locks where locktype = 'advisory' and pid = $1", [pid]).fetchall() == []
        for use in (cursor.execute, first.execute):
            with pytest.raises(psycopg.OperationalError, match="closed"):
                use("select")
        second.close()


def test_one_in_a_transaction_or_of_another_program_is_closed(postgres_server_url: str) -> None:
    with closing(KeptConnections()) as kept:
        kept.keep(postgres_server_url)
        open_transaction = OwnConnection.connect(postgres_server_url, **options_for(postgres_server_url, Config()))
        open_transaction.execute("begin")
        for connection in (open_transaction, psycopg.connect(postgres_server_url)):
            connection.close()
            assert connection.closed
        assert kept.pids(postgres_server_url) == []
