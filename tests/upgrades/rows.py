"""The rows of each version: jobs of every kind in every state, as the code of that version left them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from rowcall.worker.registrar import host_name
from tests.conformance.notes import Notes
from tests.crash.storm.journal import install
from tests.faults.world import build, plain_database
from tests.observe.plain_sql import PlainDatabase
from tests.upgrades.stored import FOLDER, read_statements

TABLES = {
    "sqlite": "select name from sqlite_master where type = 'table' and name like '{}%' order by rowid",
    "postgres": "select relname from pg_class where relkind = 'r' and relname like '{}%' order by oid",
}
NOT_STORED = ("rowcall_migration", "rowcall_worker")
"""What makes the tables writes the first. Workers ended long ago, and their liveness files are gone."""
COLUMNS = "select name from pragma_table_info('{}')"
# a sequence that has numbered no row begins at 1
SEQUENCES = """
    select setval(pg_get_serial_sequence(table_name, column_name), 1000) from information_schema.columns
    where table_schema = 'public' and is_identity = 'YES'"""


def rows_path(database: str, version: int) -> Path:
    return FOLDER / str(version) / f"{database}-rows.jsonl"


def notes_path(database: str, version: int) -> Path:
    """Return the file with what the handlers noted so far."""
    return FOLDER / str(version) / f"{database}-notes"


def write_rows(database: str, version: int, url: str) -> None:
    """Make the world of `tests/faults` in an empty database, and store its rows."""
    notes_path(database, version).unlink(missing_ok=True)
    build(url, Notes(notes_path(database, version)))
    with closing(plain_database(url)) as plain:
        lines = [json.dumps([table, row]).replace(f"{host_name()}:", "host:") for table, row in _rows(database, plain)]
    rows_path(database, version).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _rows(database: str, plain: PlainDatabase) -> Iterator[tuple[str, dict[str, object]]]:
    for prefix in ("rowcall_", "storm_"):
        for (table,) in plain.ask(TABLES[database].format(prefix)):
            if table in NOT_STORED:
                continue
            if database == "postgres":
                yield from ((table, row) for (row,) in plain.ask(f"select to_jsonb({table}) from {table}"))
                continue
            columns = [name for (name,) in plain.ask(COLUMNS.format(table))]
            yield from ((table, dict(zip(columns, row, strict=True))) for row in plain.ask(f"select * from {table}"))


def load(database: str, version: int, url: str, notes: Path) -> None:
    """Make the tables of a version in an empty database, with the rows and notes of that version."""
    statements = read_statements(database, version)
    is_trigger = ["create trigger" in statement[:40] for statement in statements]
    shutil.copyfile(notes_path(database, version), notes)
    with closing(plain_database(url)) as plain:
        plain.ask("begin")
        for statement, later in zip(statements, is_trigger, strict=True):
            if not later:
                plain.ask(statement)
        lines = [json.loads(line) for line in rows_path(database, version).read_text(encoding="utf-8").splitlines()]
        plain.ask("delete from rowcall_setting")
        for table, row in lines:
            if table.startswith("rowcall_"):
                plain.ask(_insert(database, table, row))
        for statement, later in zip(statements, is_trigger, strict=True):
            if later:
                plain.ask(statement)
        install(plain)
        for table, row in lines:
            if table.startswith("storm_"):
                plain.ask(_insert(database, table, row))
        if database == "postgres":
            plain.ask(SEQUENCES)
        plain.ask("commit")


def _insert(database: str, table: str, row: dict[str, object]) -> str:
    if database == "postgres":
        record = f"jsonb_populate_record(null::{table}, {_quoted(json.dumps(row))})"
        return f"insert into {table} overriding system value select * from {record}"
    return f"insert into {table} ({', '.join(row)}) values ({', '.join(map(_quoted, row.values()))})"


def _quoted(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
