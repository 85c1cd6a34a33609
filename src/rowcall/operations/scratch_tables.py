"""Tables on a server that exist for a while only, as those of `rowcall bench`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rowcall.domain.config import ServerKind
from rowcall.queue import Queue
from rowcall.store.statement import Plan, execute, plain

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


def _from_postgres(prefix: str) -> Plan[None]:
    yield from execute(plain(_DROP.replace("<prefix>", prefix)))


def _from_mysql(prefix: str) -> Plan[None]:
    named = yield plain(
        "select table_name, table_type from information_schema.tables"
        " where table_schema = database() and left(table_name, char_length($1)) = $1",
        prefix,
    )
    yield plain("set foreign_key_checks = 0")
    for name, kind in named:
        yield plain(f"drop {'view' if kind == 'VIEW' else 'table'} if exists `{name}`")
    yield plain("set foreign_key_checks = 1")


_PLANS: Mapping[ServerKind, Callable[[str], Plan[None]]] = {"postgresql": _from_postgres, "mysql": _from_mysql}


def drop_tables(queue: Queue) -> None:
    """Drop everything on a server whose name begins with the table prefix of this queue."""
    assert queue.config.server is not None
    drop = _PLANS[queue.config.server.kind]
    queue.database.write(lambda: drop(queue.config.table_prefix))
