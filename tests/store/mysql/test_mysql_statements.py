"""Every text of the catalogue is one that the server understands."""

from __future__ import annotations

import re
from contextlib import closing

import pymysql

from rowcall.domain.config import Config, Server
from rowcall.drivers.mysql.connection import MysqlSession, connect
from rowcall.drivers.mysql.placeholders import arranged
from rowcall.store.catalogue import queries_for
from rowcall.store.mysql.dialect import catalogue
from rowcall.store.mysql.tables import MysqlTables
from rowcall.store.statement import ParameterKind, database_time

SAMPLES: dict[ParameterKind, object] = {
    ParameterKind.NOW: None,
    ParameterKind.MS: 1_763_562_000_000,
    ParameterKind.TEXT: "[]",  # where it is a JSON text
    ParameterKind.INT: 1,
    ParameterKind.FLOAT: 0.5,
    ParameterKind.IDS: [1],
    ParameterKind.JSON: [],
}
REFUSED_VALUES = {1048, 1062, 1305, 1452, 1958, 3819, 4025}
"""A row that is there, a savepoint or a job that is not, no base64, a rule of the table."""


def test_every_text_is_understood(mysql_url: str) -> None:
    config = Config(server=Server(url=mysql_url))
    problems = []
    with closing(connect(mysql_url, config)) as raw:
        MysqlSession(raw, config).write(MysqlTables("rowcall_", database_time).migrate())
        for topic, query in queries_for("mysql"):
            plan = catalogue("rowcall_").ask(query, *(SAMPLES[kind] for kind in query.kinds if kind.name != "NOW"))
            raw.query("start transaction")
            try:
                statement = next(plan)
                while True:
                    with raw.cursor() as cursor:
                        cursor.execute(*arranged(statement.sql, statement.parameters))
                    statement = plan.send([])
            except StopIteration:
                pass
            except pymysql.MySQLError as error:
                if error.args[0] not in REFUSED_VALUES:
                    problems.append(f"{topic}.{query.name}: {error.args}")
            raw.query("rollback")
    assert problems == []


def test_no_text_depends_on_the_mode_of_a_connection() -> None:
    """On a caller's connection, `||` may mean "or", and double quotes may be those of a name."""
    texts = {name: re.sub(r"'[^']*'", "", text) for name, text in catalogue("rowcall_").texts().items()}
    assert [name for name, text in texts.items() if "||" in text or '"' in text or "\\" in text] == []
