"""The triggers of a move: what notes changes, and what refuses them. See `rowcall.store.dialect.MoveCode`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rowcall.store.dialect import MoveCode
from rowcall.store.moves.guards import GUARDED, MESSAGE, WATCHED, WRITES_OF_MOVE
from rowcall.store.sqlite.schema import CODE

_TABLE = "create table if not exists <prefix>moving (seq integer primary key autoincrement, job_id bigint not null)"
NEXT_ID = "select coalesce(max(seq), 0) + 1 from sqlite_sequence where name = '<{0}>' collate nocase"
FORGET_ID = "delete from sqlite_sequence where name = '<{0}>' collate nocase and seq < $1"
SET_ID = """
    insert into sqlite_sequence (name, seq) select '<{0}>', $1 where not exists (
      select 1 from sqlite_sequence where name = '<{0}>' collate nocase)"""


def _watch() -> Iterator[str]:
    yield _TABLE
    for table, job, change in WATCHED:
        row = "old" if change == "delete" else "new"
        yield f"""create trigger if not exists <prefix>moving_{table}_{change} after {change} on <{table}> begin
          insert into <prefix>moving (job_id) values ({row}.{job});
        end"""


def _close() -> Iterator[str]:
    for table, change in GUARDED:
        yield f"""create trigger if not exists <prefix>moved_{table}_{change} before {change} on <{table}>
        when not exists (select 1 from <setting> where name = '{WRITES_OF_MOVE}') begin
          select raise(abort, '{MESSAGE}');
        end"""


def move_code(render: Callable[[str], str]) -> MoveCode:
    code = [part for part in CODE if part.create.split()[1] == "trigger"]
    templates = MoveCode(
        watch=tuple(_watch()),
        unwatch=(
            *(f"drop trigger if exists <prefix>moving_{table}_{change}" for table, _, change in WATCHED),
            "drop table if exists <prefix>moving",
        ),
        close=tuple(_close()),
        open=tuple(f"drop trigger if exists <prefix>moved_{table}_{change}" for table, change in GUARDED),
        without_code=tuple(part.replace[0] for part in code),
        with_code=tuple(statement for part in code for statement in part.replace),
    )
    return MoveCode(*(tuple(map(render, statements)) for statements in templates))
