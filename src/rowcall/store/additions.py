"""What each version after the first adds to the tables: the columns of `rowcall.store.schema` begin with the first.

A released version does not change: what comes later is one more version. Triggers, functions and views are not listed
here, because each migration makes the newest ones again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from rowcall.store.migration import Migration

NO_INDEXES: Mapping[int, Sequence[str]] = MappingProxyType({})
NO_CHECKS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


class Addition(NamedTuple):
    """New tables, and new columns of older ones, with a line for each column as in `rowcall.store.schema`.

    `oldest` is the lowest version whose code still works on these tables. `checks` are rules of older columns that
    allow more: for each table, the names of the rules and what they are now.
    """

    version: int
    oldest: int
    name: str
    tables: Mapping[str, str]
    columns: Mapping[str, str]
    indexes: tuple[str, ...]
    checks: Mapping[str, Mapping[str, str]] = NO_CHECKS


ADDITIONS = (
    Addition(
        2,
        2,
        "limits that change, batches, child jobs and streams",
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
            # limits, or keys of limits, of which no job starts until then; which job asked for it, and why
            "limit_hold": """
  limit_key key primary key
  held_at moment not null
  until moment not null
  job_id bigint not null
  reason text
""",
            # open breakers of limits: until when no job starts, and how many of the last attempts had failed
            "breaker": """
  limit_key key primary key
  opened_at moment not null
  open_until moment not null
  failed int not null
  outcomes int not null
""",
            # how the last attempts under breakers ended
            "outcome": """
  id rowid
  at moment not null
  failed flag not null
  limit_key key not null
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
            # Values that handlers append, in the order of their numbers. `bytes` is the length of all up to this one.
            # Triggers delete them with their jobs.
            "stream": """
  job_id bigint not null
  number int not null
  part int not null
  bytes bigint not null
  name text not null
  value text not null
  primary key (job_id, number)
""",
            # Parents that may have to be woken: a transaction that could not lock one of them leaves a row. `child_id`:
            # a job that has ended, whose end is not in the step of its parent yet.
            "parent_check": """
  id identity
  job_id bigint not null
  child_id bigint
""",
            # What handlers have logged, one row for each claim of a job, deleted with it.
            "log": """
  job_id bigint not null
  lease bigint not null
  attempt int not null
  lines text not null
  primary key (job_id, lease)
""",
        },
        columns={
            # `deadline_at`: when a job that has not ended fails, whatever attempts it has left. `parent_step` is the
            # position of the step that waits for the job
            "job": """
  batch_id bigint
  deadline_at time?
  parent_id bigint
  parent_step int
  detached int
""",
            # how many units an attempt has reserved under a rate that counts them
            "start": """
  units number
  job_id bigint
  lease bigint
""",
            # a signal that may be sent twice has a key: when it was received, its row stays, without the value, but
            # with the position of the step that has received it
            "signal": """
  key text
  received_by int
""",
            # the numbers that people have set instead of the declared ones, and who changed them last
            "quota": """
  set_concurrency int
  set_rate int
  set_per_ms number
  changed_at moment
  changed_by text
""",
            # what a wait asks people, and the JSON Schema of the value that it takes; the job that a call waits for;
            # and the position of the `ctx.first` that the step is a part of
            "step": """
  question json
  expects text
  child_id bigint
  first_at int
""",
        },
        indexes=(
            # one in place of three: each INSERT reads the condition of every index
            *(f"drop index <prefix>job_{name}" for name in ("scheduled", "blocked", "unclaimed")),
            "create index <prefix>job_waiting on <job> (status, queue, type, id <covering:run_at, created_at, attempt>)"
            " where status = <scheduled> or status = <blocked> or status = <running>",
            # whether any job has not ended, and pages of jobs by status
            "create index <prefix>job_batch on <job> (batch_id, status, id) where batch_id is not null",
            "create index <prefix>job_deadline on <job> (deadline_at) where deadline_at is not null"
            " and (status = <scheduled> or status = <pending>)",
            "create index <prefix>outcome_by_key on <outcome> (limit_key, id <covering:failed>)",
            "create unique index <prefix>signal_key on <signal> (job_id, name, key) where key is not null",
            "create index <prefix>job_parent on <job> (parent_id, status, id) where parent_id is not null",
            "create index <prefix>batch_over on <batch> (finished_at) where finished_at is not null",
            "create index <prefix>batch_tallied on <batch_tally> (batch_id, status <covering:jobs>)",
            # waits that ask people, and waits for other signals
            "create index <prefix>step_asks on <step> (started_at, job_id, position)"
            " where question is not null and kind = 'wait' and status = 'waiting'",
            "create index <prefix>step_awaits on <step> (started_at, job_id, position)"
            " where question is null and kind = 'wait' and status = 'waiting'",
        ),
        checks={
            "step": {
                "step_kind_is_known": "kind in ('step', 'sleep', 'wait', 'call', 'first', 'patch')",
                "step_status_is_known": (
                    "status in ('waiting', 'finished', 'timed_out', <failed>, <cancelled>, 'abandoned')"
                ),
            },
        },
    ),
)


def with_additions(tables: Mapping[str, str]) -> dict[str, str]:
    """Return the tables of the newest version, of those of the first one."""
    newest = dict(tables)
    for addition in ADDITIONS:
        newest |= addition.tables
        for table, checks in addition.checks.items():
            newest[table] = with_checks(newest[table], checks)
        for table, columns in addition.columns.items():
            newest[table] = f"{newest[table].rstrip()}\n{columns.strip(chr(10))}\n"
    return newest


def with_checks(columns: str, checks: Mapping[str, str]) -> str:
    """Return the columns with other rules, each of which ends its line.

    >>> with_checks("kind text constraint <prefix>kind_is_known check (kind in ('a'))", {"kind_is_known": "kind > ''"})
    "kind text constraint <prefix>kind_is_known check (kind > '')"
    """
    for name, check in checks.items():
        columns, found = re.subn(rf"(constraint <prefix>{name} check) .*", rf"\1 ({check})", columns)
        assert found == 1, name
    return columns


def later_migrations(
    first_tables: Mapping[str, str],
    table: Callable[[str, str], str],
    column: Callable[[str, str, str], str],
    recheck: Callable[[str, str, Mapping[str, str]], Iterable[str]],
    indexes: Mapping[int, Sequence[str]] = NO_INDEXES,
) -> Iterator[Migration]:
    """Yield a migration for each addition.

    `table` and `column` write what a database calls them. `recheck` changes the rules of a table, given its name, its
    columns and the rules. `indexes`: what only one database needs, by version.
    """
    tables = dict(first_tables)
    for addition in ADDITIONS:
        statements = [table(name, columns) for name, columns in addition.tables.items()]
        for name, checks in addition.checks.items():
            tables[name] = with_checks(tables[name], checks)
            statements += recheck(name, tables[name], checks)
        for name, columns in addition.columns.items():
            for line in columns.strip().splitlines():
                new, kind, *rest = line.split(maxsplit=2)
                statements.append(f"alter table <{name}> add column {column(new, kind, ' '.join(rest)).strip()}")
        statements += [*addition.indexes, *indexes.get(addition.version, ())]
        yield Migration(addition.version, addition.oldest, addition.name, tuple(statements))
