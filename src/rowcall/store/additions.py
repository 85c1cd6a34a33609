"""What each version after the first adds to the tables: the columns of `rowcall.store.schema` begin with the first.

A released version does not change: what comes later is one more version. Triggers, functions and views are not listed
here, because each migration makes the newest ones again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from rowcall.store.migration import Migration

NO_INDEXES: Mapping[int, Sequence[str]] = MappingProxyType({})


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
            # Named groups of jobs. The four counts are what was folded: of jobs that were added, and how they ended.
            # `on_finish` and `on_success` are jobs to enqueue, and the last two columns their ids once they are.
            "batch": """
  id identity
  created_at moment not null
  sealed_at moment
  finished_at moment
  added number not null default 0
  succeeded number not null default 0
  failed number not null default 0
  cancelled number not null default 0
  finish_job bigint
  success_job bigint
  name name not null
  on_finish json
  on_success json
""",
            # What transactions have added to these counts: jobs that ended with a status, or jobs that were added.
            "batch_tally": """
  id rowid
  batch_id bigint not null
  jobs number not null
  status text
""",
        },
        columns={
            "job": """
  batch_id bigint
""",
            # the numbers that people have set instead of the declared ones, and who changed them last
            "quota": """
  set_concurrency int
  set_rate int
  set_per_ms number
  changed_at moment
  changed_by text
""",
        },
        indexes=(
            # whether any job has not ended, and pages of jobs by status
            "create index <prefix>job_batch on <job> (batch_id, status, id) where batch_id is not null",
            "create index <prefix>batch_over on <batch> (finished_at) where finished_at is not null",
            "create index <prefix>batch_tallied on <batch_tally> (batch_id, status <covering:jobs>)",
        ),
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


def later_migrations(
    table: Callable[[str, str], str],
    column: Callable[[str, str, str], str],
    indexes: Mapping[int, Sequence[str]] = NO_INDEXES,
) -> Iterator[Migration]:
    """Yield a migration for each addition; `table` and `column` write what a database calls them. `indexes`: what only
    one database needs, by version.
    """
    for addition in ADDITIONS:
        statements = [table(name, columns) for name, columns in addition.tables.items()]
        for name, columns in addition.columns.items():
            for line in columns.strip().splitlines():
                new, kind, *rest = line.split(maxsplit=2)
                statements.append(f"alter table <{name}> add column {column(new, kind, ' '.join(rest)).strip()}")
        statements += [*addition.indexes, *indexes.get(addition.version, ())]
        yield Migration(addition.version, addition.oldest, addition.name, tuple(statements))
