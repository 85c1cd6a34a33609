"""The triggers of a move: what notes changes, and what refuses them. See `rowcall.store.dialect.MoveCode`.

Each of these statements commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rowcall.store.dialect import MoveCode
from rowcall.store.moves.guards import GUARDED, MESSAGE, WATCHED, WRITES_OF_MOVE
from rowcall.store.mysql.schema import CODE

_TABLE = "create table if not exists <prefix>moving (seq bigint auto_increment primary key, job_id bigint not null)"
# the number that the server shows may be old
NEXT_ID = """
    select greatest(coalesce((select auto_increment from information_schema.tables
                              where table_schema = database() and table_name = '<{0}>'), 1),
                    (select coalesce(max(id), 0) + 1 from <{0}>))"""
SET_ID = "alter table <{0}> auto_increment = {1}"


def _watch() -> Iterator[str]:
    yield _TABLE
    for table, job, change in WATCHED:
        row = "old" if change == "delete" else "new"
        yield f"drop trigger if exists <prefix>moving_{table}_{change}"
        yield f"""create trigger <prefix>moving_{table}_{change} after {change} on <{table}> for each row
        insert into <prefix>moving (job_id) values ({row}.{job})"""


def _close() -> Iterator[str]:
    for table, change in GUARDED:
        yield f"drop trigger if exists <prefix>moved_{table}_{change}"
        yield f"""create trigger <prefix>moved_{table}_{change} before {change} on <{table}> for each row begin
          if not exists (select 1 from <setting> where name = '{WRITES_OF_MOVE}') then
            signal sqlstate '45000' set message_text = '{MESSAGE}';
          end if;
        end"""


def move_code(render: Callable[[str], str]) -> MoveCode:
    made = [part.create for part in CODE if part.create.split()[:2] == ["create", "trigger"]]
    dropped = [f"drop trigger if exists {trigger.split()[2]}" for trigger in made]
    templates = MoveCode(
        watch=tuple(_watch()),
        unwatch=(
            *(f"drop trigger if exists <prefix>moving_{table}_{change}" for table, _, change in WATCHED),
            "drop table if exists <prefix>moving",
        ),
        close=tuple(_close()),
        open=tuple(f"drop trigger if exists <prefix>moved_{table}_{change}" for table, change in GUARDED),
        without_code=tuple(dropped),
        with_code=tuple(statement for pair in zip(dropped, made, strict=True) for statement in pair),
    )
    return MoveCode(*(tuple(map(render, statements)) for statements in templates))
