"""Databases with the tables in them, which tests use one after another: emptying one is quicker than making one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types.json import Json

from rowcall.testing.deadline import eventually
from rowcall.testing.postgres_database import Databases, database_of
from tests.kept_connections import KeptConnections

Row = tuple[object, ...]

CLEAN_END_SECONDS = 0.3
MOST_BYTES_GROWN = 2_000_000
FIRST_USER_OID = 16384
# whatever a test changed but rows: tables, functions, privileges, settings, statistics, the size of the files
STATE = f"""
select array[count(*), sum(oid::bigint), sum(xmin::text::bigint)]::text from (
    select oid, xmin from pg_class where oid >= {FIRST_USER_OID}
    union all select attrelid, xmin from pg_attribute where attrelid >= {FIRST_USER_OID}
    union all select oid, xmin from pg_constraint where oid >= {FIRST_USER_OID}
    union all select oid, xmin from pg_trigger
    union all select oid, xmin from pg_attrdef
    union all select oid, xmin from pg_rewrite where oid >= {FIRST_USER_OID}
    union all select oid, xmin from pg_proc where oid >= {FIRST_USER_OID}
    union all select oid, xmin from pg_type where oid >= {FIRST_USER_OID}
    union all select oid, xmin from pg_namespace
    union all select oid, xmin from pg_extension
    union all select oid, xmin from pg_event_trigger
    union all select oid, xmin from pg_default_acl
    union all select oid, xmin from pg_statistic_ext
    union all select oid, xmin from pg_policy
    union all select starelid, xmin from pg_statistic where starelid >= {FIRST_USER_OID}
    union all select oid, xmin from pg_database where datname = current_database()
    union all select oid, s.xmin from pg_db_role_setting s join pg_database on oid = setdatabase
    where datname = current_database()
) as object
union all select sum(reltuples)::text from pg_class where oid >= {FIRST_USER_OID}
union all select sum(pg_relation_size(oid))::text from pg_class where oid >= {FIRST_USER_OID} and relkind in ('r', 'i')
"""
OTHERS = """
select from pg_stat_activity
where datid = (select oid from pg_database where datname = current_database()) and pid <> pg_backend_pid()
    and pid <> all ('{{{kept}}}')
"""
TABLES = "select oid::regclass::text from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
SEQUENCES = "select oid::regclass::text from pg_class where relkind = 'S' and relnamespace = 'public'::regnamespace"


class SpareDatabase:
    """One database, and a connection that stays open while tests come and go."""

    def __init__(self, url: str, kept: KeptConnections | None = None) -> None:
        self.url = url
        self._kept = kept
        if kept is not None:
            kept.keep(url)
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self._objects, self._counted, self._bytes = self._state()
        self._reset = self._statements()

    def execute(self, statement: str) -> list[Row]:
        """Run one statement as an outsider, and commit it."""
        if self.connection.closed:
            self.connection = psycopg.connect(self.url, autocommit=True, prepare_threshold=None)
        cursor = self.connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description is not None else []

    def emptied(self) -> bool:
        """Make it as new, or return false: a client is still connected, or more than rows has changed."""
        try:
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                return False
            self.connection.execute("discard all")
            eventually(self._is_left_by_others, within=CLEAN_END_SECONDS)
            objects, counted, size = self._state()
            if (objects, counted) != (self._objects, self._counted) or size > self._bytes + MOST_BYTES_GROWN:
                return False
            self.connection.execute(self._reset)
        except (AssertionError, psycopg.Error):
            return False
        return True

    def close(self) -> None:
        self.connection.close()
        if self._kept is not None:
            self._kept.forget(self.url)

    def _is_left_by_others(self) -> bool:
        kept = self._kept.pids(self.url) if self._kept is not None else []
        return not self.execute(OTHERS.format(kept=",".join(map(str, kept))))

    def _state(self) -> tuple[str, str, int]:
        objects, counted, size = (str(value) for (value,) in self.execute(STATE))
        return objects, counted, int(size)

    def _statements(self) -> bytes:
        """Delete every row without a trigger, write the rows of new tables again, and restart the numbers."""
        parts = [b"set local session_replication_role = replica"]
        for (table,) in self.execute(TABLES):
            parts.append(f"delete from {table}".encode())
            for (rows,) in self.execute(f"select json_agg(t) from {table} t"):
                if rows is not None:
                    kept = sql.Literal(Json(rows)).as_bytes(self.connection)
                    parts.append(f"insert into {table} select * from json_populate_recordset(null::{table}, ".encode())
                    parts[-1] += kept + b")"
        parts += [f"select setval('{sequence}', 1, false)".encode() for (sequence,) in self.execute(SEQUENCES)]
        return b"; ".join(parts)


class SpareDatabases:
    """Copies of one template. They are dropped at the end, or when they cannot be used again."""

    def __init__(self, databases: Databases, template: str) -> None:
        self._databases = databases
        self._template = template
        self._kept = KeptConnections()
        self._spare: dict[bool, list[SpareDatabase]] = {True: [], False: []}

    @contextlib.contextmanager
    def database(self, *, keep_connections: bool = True) -> Iterator[SpareDatabase]:
        """A database that is as new, and that no other test uses.

        If `keep_connections` is set, a queue may get a connection that a queue of an earlier test has closed.
        """
        spare = self._spare[keep_connections]
        if spare:
            used = spare.pop()
        else:
            url = self._databases.create(template=self._template)
            used = SpareDatabase(url, self._kept if keep_connections else None)
        try:
            yield used
        finally:
            if used.emptied():
                spare.append(used)
            else:
                self._drop(used)

    def close(self) -> None:
        for spare in self._spare.values():
            while spare:
                self._drop(spare.pop())
        self._kept.close()

    def _drop(self, database: SpareDatabase) -> None:
        database.close()
        self._databases.drop(database_of(database.url))
