"""Tables on a server that exist for a while only, as those of `rowcall bench`."""

from __future__ import annotations

from rowcall.queue import Queue
from rowcall.store.statement import Statement, as_is, execute

_DROP = """
do $body$
declare removal text;
begin
  for removal in
    select format('drop table if exists %s cascade', oid::regclass) from pg_class
    where relkind = 'r' and relnamespace = current_schema()::regnamespace and starts_with(relname, '<prefix>')
    union all
    select format('drop function if exists %s cascade', oid::regprocedure) from pg_proc
    where pronamespace = current_schema()::regnamespace and starts_with(proname, '<prefix>')
    union all
    select format('drop domain if exists %s cascade', oid::regtype) from pg_type
    where typtype = 'd' and typnamespace = current_schema()::regnamespace and starts_with(typname, '<prefix>')
  loop
    execute removal;
  end loop;
end
$body$
"""


def drop_tables(queue: Queue) -> None:
    """Drop everything on a PostgreSQL server whose name begins with the table prefix of this queue."""
    drop = Statement(_DROP.replace("<prefix>", queue.config.table_prefix), (), as_is)
    queue.database.write(lambda: execute(drop))
