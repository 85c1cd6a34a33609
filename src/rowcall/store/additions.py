"""What each version after the first adds to the tables: the columns of `rowcall.store.schema` begin with the first.

A released version does not change: what comes later is one more version. Triggers, functions and views are not listed
here, because each migration makes the newest ones again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rowcall.store.migration import Migration


class Addition(NamedTuple):
    """New tables, and new columns of older ones, with a line for each column as in `rowcall.store.schema`.

    `oldest` is the lowest version whose code still works on these tables.
    """

    version: int
    oldest: int
    name: str
    tables: Mapping[str, str]
    columns: Mapping[str, str]
    indexes: tuple[str, ...]


ADDITIONS = (
    Addition(
        2,
        2,
        "limits that change, batches and child jobs",
        tables={
            # what people and jobs did to the whole system, not to one job; the newest ones are kept
            "audit": """
  id rowid
  at moment not null
  event text not null
  subject text not null
  actor text
  detail text
""",
            # Findings that are or were there, and whether they were reported. `since` is null while one is away.
            "finding": """
  name key primary key
  since moment
  seen_at moment not null
  reported_at moment
  is_reported flag not null default 0
  cause text not null default ''
  size number not null default 0
  body text not null
""",
            # Reports of them that are to be sent. `way` is a URL or a task.
            "alert": """
  id identity
  at moment not null
  due_at moment not null
  attempts int not null default 0
  way text not null
  finding key not null
  body text not null
""",
        },
        columns={
            # the numbers that people have set instead of the declared ones, and who changed them last
            "quota": """
  set_concurrency int
  set_rate int
  set_per_ms number
  changed_at moment
  changed_by text
""",
        },
        indexes=(),
    ),
)


def with_additions(tables: Mapping[str, str]) -> dict[str, str]:
    """Return the tables of the newest version, of those of the first one."""
    newest = dict(tables)
    for addition in ADDITIONS:
        newest |= addition.tables
        for table, columns in addition.columns.items():
            newest[table] = f"{newest[table].rstrip()}\n{columns.strip(chr(10))}\n"
    return newest


def later_migrations(table: Callable[[str, str], str], column: Callable[[str, str, str], str]) -> Iterator[Migration]:
    """Yield a migration for each addition; `table` and `column` write what a database calls them."""
    for addition in ADDITIONS:
        statements = [table(name, columns) for name, columns in addition.tables.items()]
        for name, columns in addition.columns.items():
            for line in columns.strip().splitlines():
                new, kind, *rest = line.split(maxsplit=2)
                statements.append(f"alter table <{name}> add column {column(new, kind, ' '.join(rest)).strip()}")
        yield Migration(addition.version, addition.oldest, addition.name, (*statements, *addition.indexes))
