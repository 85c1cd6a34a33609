"""What the user of the kit supplies: an empty database, and a separate client for it."""

from __future__ import annotations

from typing import Protocol

Row = tuple[object, ...]
History = dict[str, list[Row]]


class Store(Protocol):
    """A database without any table, which no other test uses."""

    @property
    def url(self) -> str:
        """What `Rowcall(...)` opens it by, in any process of this machine."""

    def execute(self, sql: str) -> list[Row]:
        """Run one statement as an outsider would, by the database's own client, and commit it."""


def refuses(store: Store, sql: str) -> bool:
    """Whether the database does not take it; by which exception is its client's affair."""
    try:
        store.execute(sql)
    except Exception:
        return True
    return False


TABLES = ("rowcall_job", "rowcall_attempt", "rowcall_event")


def all_rows(store: Store) -> History:
    """Every column of every row of the three layers of data."""
    return {table: store.execute(f"select * from {table} order by id") for table in TABLES}
