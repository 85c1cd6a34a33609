"""The triggers of a move: what notes changes, and what refuses them. See `rowcall.store.dialect.MoveCode`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rowcall.store.dialect import MoveCode
from rowcall.store.moves.guards import GUARDED, MESSAGE, WATCHED, WRITES_OF_MOVE
from rowcall.store.postgres.schema import CODE

# no unique key: two transactions that change one job would wait for each other
_TABLE = """
create table if not exists <prefix>moving (seq bigint generated always as identity primary key, job_id bigint not null)
"""
_HAS_SEQUENCE = "pg_get_serial_sequence('<{0}>', 'id')"
NEXT_ID = f"""
    select coalesce(last_value, start_value - 1) + 1 from pg_sequences
    where format('%I.%I', schemaname, sequencename) = {_HAS_SEQUENCE}"""
SET_ID = f"""
    select setval({_HAS_SEQUENCE}, $1::bigint) where $1::bigint > 0 and $1::bigint >= (
      select coalesce(last_value, 0) from pg_sequences
      where format('%I.%I', schemaname, sequencename) = {_HAS_SEQUENCE})"""


def _note_function(column: str) -> str:
    return f"""
create or replace function <prefix>note_moving_{column}() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $body$
begin
  insert into <schema>.<prefix>moving (job_id) select {column} from changed;
  return null;
end
$body$
"""


_REFUSE_FUNCTION = f"""
create or replace function <prefix>refuse_moved() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $body$
begin
  if not exists (select from <schema>.<setting> where name = '{WRITES_OF_MOVE}') then
    raise exception '{MESSAGE}';
  end if;
  return null;
end
$body$
"""


def _watch() -> Iterator[str]:
    yield _TABLE
    yield from map(_note_function, ("id", "job_id"))
    for table, job, change in WATCHED:
        rows = "old" if change == "delete" else "new"
        yield _drop("moving", table, change)
        yield f"""create trigger <prefix>moving_{table}_{change} after {change} on <{table}>
        referencing {rows} table as changed for each statement execute function <prefix>note_moving_{job}()"""


def _close() -> Iterator[str]:
    yield _REFUSE_FUNCTION
    for table, change in GUARDED:
        yield _drop("moved", table, change)
        yield f"""create trigger <prefix>moved_{table}_{change} before {change} on <{table}>
        for each statement execute function <prefix>refuse_moved()"""


def _drop(what: str, table: str, change: str) -> str:
    return f"drop trigger if exists <prefix>{what}_{table}_{change} on <{table}>"


def move_code(render: Callable[[str], str]) -> MoveCode:
    code = [part for part in CODE if part.create.split()[1] == "trigger"]
    templates = MoveCode(
        watch=tuple(_watch()),
        unwatch=(
            *(_drop("moving", table, change) for table, _, change in WATCHED),
            "drop function if exists <prefix>note_moving_id(), <prefix>note_moving_job_id()",
            "drop table if exists <prefix>moving",
        ),
        close=tuple(_close()),
        open=(*(_drop("moved", *guarded) for guarded in GUARDED), "drop function if exists <prefix>refuse_moved()"),
        without_code=tuple(part.replace[0] for part in code),
        with_code=tuple(statement for part in code for statement in part.replace),
    )
    return MoveCode(*(tuple(map(render, statements)) for statements in templates))
