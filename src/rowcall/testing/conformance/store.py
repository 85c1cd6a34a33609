"""What the user of the kit supplies: an empty database, and a separate client for it."""

from __future__ import annotations

from typing import Protocol

Row = tuple[object, ...]
History = dict[str, list[Row]]


class Store(Protocol):
    """A database without any table, which no other test uses."""

    @property
    def url(self) -> str:
        """The URL for `Rowcall(...)`, in any process of this machine."""

    def execute(self, sql: str) -> list[Row]:
        """Run one statement as an outsider would, by the database's own client, and commit it."""


def refuses(store: Store, sql: str) -> bool:
    """Return whether the database refuses the statement, by any exception of its client."""
    try:
        store.execute(sql)
    except Exception:
        return True
    return False


TABLES = ("rowcall_job", "rowcall_attempt", "rowcall_event")


def all_rows(store: Store) -> History:
    """Every column of every row of the three layers of data."""
    return {table: store.execute(f"select * from {table} order by id") for table in TABLES}
