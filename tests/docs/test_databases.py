"""Statements of docs/databases.md, apart from its code blocks."""

from __future__ import annotations

import re
from contextlib import closing

from rowcall import Rowcall
from rowcall.domain.config import database_of
from rowcall.drivers.mysql.connection import OLDEST_MARIADB, OLDEST_MYSQL, URL_PARAMETERS
from rowcall.testing.mysql import MysqlServer
from rowcall.wake import polling
from tests.docs.pages import DOCS, README, read

PAGE = DOCS / "databases.md"
OF_ROWS = "SELECT, INSERT, UPDATE, DELETE"


def test_the_table_names_what_the_code_has() -> None:
    page = read(PAGE)
    mariadb, mysql = (".".join(map(str, oldest)) for oldest in (OLDEST_MARIADB, OLDEST_MYSQL))
    assert f"| MariaDB {mariadb} or newer, MySQL {mysql} or newer |" in page
    assert f"| MariaDB {mariadb}, MySQL {mysql} or newer |" in read(README)
    assert f"{polling.FIRST_SECONDS * 1000:g} to {polling.LAST_SECONDS * 1000:g} ms" in page
    for url in re.findall(r"`((?:sqlite|postgresql|mysql)://[^`]+)`", page):
        assert database_of(url)
    assert re.findall(r"`\?(\w+)=…`", page) == list(URL_PARAMETERS)


def test_the_privileges_are_those_that_the_tables_need(mysql_server: MysqlServer, mysql_url: str) -> None:
    told = re.search(r"needs the privileges (.*?) on it", read(PAGE).replace("\n", " "))
    assert told is not None
    privileges, name = told[1].replace(" and ", ", "), mysql_url.rpartition("/")[2]
    with closing(mysql_server.connect()) as root, root.cursor() as cursor:
        cursor.execute("create user shop_app@'%' identified by 'p@ss/word%'")
        cursor.execute(f"grant {OF_ROWS}, {privileges} on `{name}`.* to shop_app@'%'")
        with Rowcall(mysql_url.replace("root@", "shop_app:p%40ss%2Fword%25@")) as jobs:

            @jobs.task
            def note() -> None: ...

            note.enqueue()
            assert jobs.drain().succeeded == 1
        cursor.execute("drop user shop_app@'%'")
