"""The tables of each version, as SQL. From version 1 on, a change of the tables is a migration, and these files stay.

python -m tests.upgrades.stored      # write the files of the newest version, once, when it is released

It also writes rows of every kind, as this version leaves them: see `rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from rowcall.store.postgres import schema as postgres
from rowcall.store.postgres.words import render as render_postgres
from rowcall.store.sqlite import schema as sqlite
from rowcall.store.sqlite.words import render as render_sqlite

FOLDER = Path(__file__).parent
PREFIX = "rowcall_"
NEXT = "\n-- next statement\n"


def _on_sqlite(statement: str) -> str:
    return render_sqlite(statement, PREFIX)


def _on_postgres(statement: str) -> str:
    return render_postgres(statement, PREFIX, "public")


DATABASES: dict[str, tuple[ModuleType, Callable[[str], str]]] = {
    "sqlite": (sqlite, _on_sqlite),
    "postgres": (postgres, _on_postgres),
}


def tables_of(database: str, version: int) -> list[str]:
    """Return the statements that make the tables of a version, with the rows that say so, but no triggers or views."""
    schema, render = DATABASES[database]
    statements = [schema.VERSION_TABLE]
    for migration in schema.MIGRATIONS[:version]:
        values = f"{migration.version}, '{migration.name}', <clock>, {migration.oldest}, '{migration.fingerprint}'"
        columns = "(version, name, applied_at, oldest, fingerprint)"
        statements += [*migration.statements, f"insert into <migration> {columns} values ({values})"]
    return [render(statement).strip() for statement in statements]


def newest_of(database: str) -> list[str]:
    """Return the statements that make the newest version in an empty database."""
    schema, render = DATABASES[database]
    code = [render(part.create).strip() for part in schema.CODE]
    return [*tables_of(database, schema.NEWEST_VERSION), *code]


def path_of(database: str, version: int) -> Path:
    return FOLDER / str(version) / f"{database}.sql"


def read_statements(database: str, version: int) -> list[str]:
    """Return what the stored file of a version holds."""
    return path_of(database, version).read_text(encoding="utf-8").removesuffix("\n").split(NEXT)


def main() -> None:
    from rowcall.testing.postgres import PostgresServer
    from rowcall.testing.postgres_database import Databases
    from tests.upgrades.rows import write_rows

    for database, (schema, _) in DATABASES.items():
        path = path_of(database, schema.NEWEST_VERSION)
        path.parent.mkdir(exist_ok=True)
        path.write_text(NEXT.join(newest_of(database)) + "\n", encoding="utf-8")
        print(path.relative_to(FOLDER.parent.parent))
    with TemporaryDirectory() as folder:
        write_rows("sqlite", sqlite.NEWEST_VERSION, f"sqlite:///{folder}/app.db")
    with PostgresServer() as server, closing(Databases(server.url())) as databases:
        write_rows("postgres", postgres.NEWEST_VERSION, databases.create())


if __name__ == "__main__":
    main()
