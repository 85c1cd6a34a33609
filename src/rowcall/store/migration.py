"""Migrations of the tables, and what one would lock: read from its statements, before it runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from rowcall.store.statement import Plan


class Migration(NamedTuple):
    """`oldest` is the lowest version whose code still works on the tables as this leaves them."""

    version: int
    oldest: int
    name: str
    statements: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Return a text that changes with the statements, but not with the space between their words."""
        return _fingerprint(self.statements)


@cache
def _fingerprint(statements: tuple[str, ...]) -> str:
    return hashlib.sha256(" ".join(" ".join(statements).split()).encode()).hexdigest()[:16]


class Code(NamedTuple):
    """What makes a trigger, a function or a view, and what makes it where an older version of it may be.

    Each migration makes all of them again.
    """

    create: str
    replace: tuple[str, ...]


LOCK_SECONDS = 0.5
"""How long a migration waits for a lock on a server: all who come later wait behind it."""
RECORD_MIGRATION = """
    insert into <migration> (version, name, applied_at, oldest, fingerprint) values ($2, $3, <now>, $4, $5)"""
# null where the table of an unreleased version does not have the column: then the name is that of the outer query
FINGERPRINTS = """
    select migration.version, (select fingerprint from <migration> as one where one.version = migration.version)
    from <migration> as migration cross join (select cast(null as text) as fingerprint) as without_column"""


STOP_OLDER_WORKERS = "delete from <worker>"
"""Only a registered worker claims. One that is not registers again, and then finds tables that it does not know."""


def pending(
    migrations: Sequence[Migration], code: Iterable[Code], before: int
) -> Iterator[tuple[Migration, Sequence[str]]]:
    """Return the migrations after version `before`, with the statements of each."""
    for migration in migrations:
        if migration.version <= before:
            continue
        statements = list(migration.statements)
        if migration is migrations[-1]:
            for part in code:
                statements += part.replace if before else (part.create,)
        if 0 < before < migration.oldest:
            statements.append(STOP_OLDER_WORKERS)
        yield migration, statements


class TableChange(Enum):
    """What a statement of a migration does to a table that others use."""

    REFERS = auto()
    INDEXES = auto()
    ADDS_TRIGGER = auto()
    TUNES = auto()
    ALTERS = auto()
    REWRITES = auto()
    CHANGES_ROWS = auto()


READS, WRITES = {TableChange.INDEXES}, {TableChange.REWRITES, TableChange.CHANGES_ROWS}
"""Changes that read each row of the table, and such that write each row."""

_NAME = r"(?P<table>[\w.\"]+)"
_TABLE_MADE = re.compile(rf"create (?:unlogged )?table (?:if not exists )?{_NAME}")
_INDEX_MADE = re.compile(r"create (?:unique )?index (?P<index>\S+)")
_COPIED = re.compile(rf"create table \S+ as select .* from {_NAME}$")
_REFERENCE = re.compile(rf" references {_NAME}")
_ALTERED = re.compile(rf"alter table (?:if exists )?(?:only )?{_NAME} (?P<how>.*)")
# names and plain types: any other column is checked in each row, or filled in
_TYPES = r"text(?: collate \"C\")?|bigint|integer|smallint|boolean|bytea|jsonb|timestamptz|double precision|real"
_UNCHECKED = r"(?:drop constraint \w+|add constraint \w+ check \(.*\) not valid)"
_SHORT = re.compile(rf"add column (?:if not exists )?\w+ (?:{_TYPES})|rename .*|{_UNCHECKED}(?:, {_UNCHECKED})*")
_TUNED = re.compile(r"(?:alter column \w+ set \([^)]*\)(?:, |$))+")
_CHANGES = [
    (re.compile(rf"create (?:unique )?index (?:if not exists )?\S+ on {_NAME}"), TableChange.INDEXES),
    (re.compile(rf"create trigger .*? on {_NAME}"), TableChange.ADDS_TRIGGER),
    (re.compile(rf"drop trigger (?:if exists )?\S+ on {_NAME}"), TableChange.ALTERS),
    (re.compile(rf"drop (?:table|view|index) (?:if exists )?{_NAME}"), TableChange.ALTERS),
    (re.compile(rf"create or replace view {_NAME}"), TableChange.ALTERS),
    (re.compile(rf"(?:update|delete from|insert into) {_NAME}"), TableChange.CHANGES_ROWS),
]
_NEW = re.compile(r"create (?:or replace )?(?:domain|function|view) |drop trigger if exists \S+$")


class UnknownStatement(Exception):
    """A statement of a migration whose lock is not known."""


def change_of(sql: str) -> tuple[str, TableChange] | None:
    """Return which table a statement locks, and what it does to it. None: it only makes something new.

    >>> change_of("create index job_future on job (future)")
    ('job', <TableChange.INDEXES: 2>)
    >>> change_of("alter table job add column future text")[1], change_of("create view future as select 1")
    (<TableChange.ALTERS: 5>, None)
    >>> change_of("alter table step drop constraint known, add constraint known check (kind > '') not valid")
    ('step', <TableChange.ALTERS: 5>)
    >>> change_of("create table step_kept as select name, kind from step")
    ('step', <TableChange.REWRITES: 6>)
    """
    if copied := _COPIED.match(sql):
        return copied["table"], TableChange.REWRITES
    if _TABLE_MADE.match(sql):
        reference = _REFERENCE.search(sql)
        return (reference["table"], TableChange.REFERS) if reference else None
    if altered := _ALTERED.match(sql):
        if _TUNED.fullmatch(altered["how"]):
            return altered["table"], TableChange.TUNES
        return altered["table"], TableChange.ALTERS if _SHORT.fullmatch(altered["how"]) else TableChange.REWRITES
    for pattern, change in _CHANGES:
        if matched := pattern.match(sql):
            return matched["table"], change
    if _NEW.match(sql):
        return None
    raise UnknownStatement(sql)


class Locking(NamedTuple):
    """How a database locks: the name of the lock for each change, and the seconds for a row that is read or written."""

    names: Mapping[TableChange, str]
    seconds_read: float
    seconds_written: float

    def seconds(self, change: TableChange, rows: int) -> float:
        return rows * (self.seconds_written if change in WRITES else self.seconds_read)


class MigrationStep(NamedTuple):
    """A statement that a migration would run, and the table that it would lock, if others can use that table.

    It would read or write `rows`, in about `seconds`. The lock lasts until the end of the transaction, for about
    `locked_seconds`.
    """

    version: int
    name: str
    statement: str
    table: str | None = None
    lock: str | None = None
    rows: int = 0
    seconds: float = 0.0
    locked_seconds: float = 0.0


class MigrationPreview(NamedTuple):
    """What a migration would do. `before` and `after` are the versions before and after."""

    before: int
    after: int
    steps: list[MigrationStep]

    @property
    def locked_seconds(self) -> float:
        """Return for about how long tables would be locked."""
        return max((step.locked_seconds for step in self.steps), default=0.0)


def preview(
    migrations: Sequence[Migration],
    code: Iterable[Code],
    before: int,
    rendered: Callable[[str], str],
    locking: Locking,
    count_rows: Callable[[str], Plan[int]],
) -> Plan[MigrationPreview]:
    """Return what the migrations after version `before` would do. Runs none of their statements.

    No one else can use the tables and indexes that they make before they end.
    """
    made: set[str] = set()
    steps = []
    for migration, statements in pending(migrations, code, before):
        for template in statements:
            step = MigrationStep(migration.version, migration.name, rendered(template).strip())
            statement = " ".join(step.statement.split())
            if new_table := _TABLE_MADE.match(statement):
                made.add(new_table["table"])
            elif new_index := _INDEX_MADE.match(statement):
                made.add(new_index["index"])
            table, change = change_of(statement) or ("", None)
            if change is not None and table not in made:
                rows = (yield from count_rows(table)) if change in READS | WRITES else 0
                seconds = locking.seconds(change, rows)
                step = step._replace(table=table, lock=locking.names[change], rows=rows, seconds=seconds)
            steps.append(step)
    until_end = list(accumulate(step.seconds for step in reversed(steps)))[::-1]
    steps = [
        step._replace(locked_seconds=seconds) if step.table else step
        for step, seconds in zip(steps, until_end, strict=True)
    ]
    return MigrationPreview(before, max(before, migrations[-1].version), steps)
