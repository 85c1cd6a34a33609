"""What the doctor says of a MariaDB or MySQL server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from rowcall import Rowcall
from rowcall.testing.mysql import MysqlServer
from tests.cli.conftest import Examine, Run
from tests.mysql_server import mysql_server

__all__ = ["mysql_server"]

CHECKS = [
    *("connection", "server", "writable", "clock", "durability", "connections", "transactions", "tables", "waiting"),
    "attention",
]


@pytest.fixture
def url(mysql_server: MysqlServer) -> Iterator[str]:
    url = mysql_server.create_database()
    with Rowcall(url) as jobs:
        jobs.migrate()
    yield url
    mysql_server.drop_database(url.rpartition("/")[2])


def execute(server: MysqlServer, url: str, statement: str) -> None:
    with closing(server.connect(url.rpartition("/")[2])) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


def test_each_check_of_a_server(run: Run, url: str, mysql_server: MysqlServer, examine: Examine) -> None:
    found = examine("--url", url)
    assert (found.exit_code, list(found.level)) == (0, CHECKS)
    # the server of the tests does not wait for its disk
    assert {check for check, level in found.level.items() if level != "ok"} == {"durability"}
    assert found.what["durability"].startswith("innodb_flush_log_at_trx_commit is 2")
    with Rowcall(url) as jobs:
        jobs.enqueue("hello")
    execute(mysql_server, url, "drop trigger rowcall_job_after_delete")
    execute(mysql_server, url, "set global read_only = 1")
    try:
        found = examine("--url", url)
    finally:
        execute(mysql_server, url, "set global read_only = 0")
    assert (found.exit_code, found.level["writable"], found.level["triggers"]) == (1, "problem", "problem")
    assert found.what["triggers"] == "5 of the 6 triggers of rowcall_job are there"
    assert "1 due job" in found.what["waiting"]


def test_a_server_without_the_tables_or_the_database(
    run: Run, url: str, mysql_server: MysqlServer, examine: Examine
) -> None:
    execute(mysql_server, url, "create table shop_migration (version int)")
    execute(mysql_server, url, "create table shop_job_tag (tag int)")
    execute(mysql_server, url, "drop table rowcall_migration")
    found = examine("--url", url)
    assert (found.exit_code, found.what["tables"]) == (1, "there are no tables named rowcall_*")
    assert "there are tables with the prefix shop_" in found.advice["tables"]
    missing = examine("--url", f"{url}_gone")
    assert (list(missing.level), missing.exit_code) == (["connection"], 1)
    assert "Unknown database" in missing.what["connection"]
    unnamed = run("doctor", "--url", url.rpartition("/")[0])
    assert unnamed.exit_code == 1
    assert "the URL names no database. Write mysql://user@host/database" in unnamed.stderr
