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


_KEY = """case when unfit is null and type not like '%\x1f%' then type
      else type || '\x1f' || coalesce(unfit, '') end"""
_SHOULD_BE_READY = f"""
    select queue, {_KEY}, -1 - priority, coalesce(turn, id), id, attempt from rowcall_job
    where status = 'pending' and held is null and id not in (select job_id from rowcall_claim)"""
_ARE_READY = "select queue, type, rowcall_ready.rank, turn, id, attempt from rowcall_ready"  # a reserved word of MySQL


_WRONG = f"""
    select 'not ready', missing.* from ({_SHOULD_BE_READY} except {_ARE_READY}) as missing
    union all select 'ready', extra.* from ({_ARE_READY} except {_SHOULD_BE_READY}) as extra"""


def check_ready(store: Store) -> None:
    """Exactly the pending jobs that are neither held nor claimed are in the table of ready jobs."""
    try:
        wrong = store.execute(_WRONG)  # one statement: a client that connects reads all tables first
    except Exception:
        assert refuses(store, _ARE_READY)  # the case has made no tables, or has broken them
        return
    assert wrong == []
