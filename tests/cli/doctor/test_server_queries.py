from __future__ import annotations

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.base.clock import SystemClock
from rowcall.cli.doctor.server_queries import ServerConnection, connected
from rowcall.testing.postgres_database import with_database
from tests.cli.conftest import Examine


def test_the_doctor_cannot_write(server_queue: Rowcall, postgres_url: str) -> None:
    with connected(postgres_url) as raw, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        ServerConnection(raw, "rowcall_", SystemClock()).rows("delete from <job> returning id")


def test_a_server_that_does_not_answer(examine: Examine) -> None:
    found = examine("--url", "postgresql://ann:secret@127.0.0.1:1/shop")
    assert (found.exit_code, list(found.level)) == (1, ["connection"])
    assert found.what["connection"].startswith("postgresql://ann@127.0.0.1:1/shop: cannot connect")
    assert "server up" in found.advice["connection"]


def test_a_database_that_is_not_there(examine: Examine, postgres_url: str) -> None:
    found = examine("--url", with_database(postgres_url, "no_such_database"))
    assert (found.exit_code, list(found.level)) == (1, ["connection"])
    assert "createdb" in found.advice["connection"]
