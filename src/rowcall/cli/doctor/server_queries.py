"""The doctor's connection to a PostgreSQL server, which cannot write, and its queries, by name. A test prepares each.

Times are seconds. Names in angle brackets are filled in by the dialect's `render`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg

from rowcall.base.clock import Clock
from rowcall.domain.config import Config
from rowcall.drivers.postgres.connection import is_pooled, tried
from rowcall.drivers.postgres.errors import cannot_connect
from rowcall.store.postgres.privileges import NEEDED
from rowcall.store.postgres.words import render
from rowcall.store.statement import Row, Statement

ANSWER_SECONDS = 10
LOCK_SECONDS = 2


class ServerConnection:
    def __init__(self, raw: psycopg.Connection[Row], prefix: str, clock: Clock) -> None:
        self._clock = clock
        self._raw = raw
        self._prefix = prefix
        self._raw.read_only = True

    @property
    def server_version(self) -> int:
        return self._raw.info.server_version

    @property
    def server_version_text(self) -> str:
        return self._raw.info.parameter_status("server_version") or "?"

    @property
    def user(self) -> str:
        return self._raw.info.user

    @property
    def is_pooled(self) -> bool:
        return is_pooled(self._raw)

    def rows(self, question: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a query in its own transaction, which works behind a pooler too."""
        with self._raw.transaction():
            self._raw.execute(f"set local statement_timeout = '{ANSWER_SECONDS}s'")
            self._raw.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
            return self._raw.execute(render(question, self._prefix), parameters).fetchall()

    def run(self, statement: Statement[object]) -> list[Row]:
        """Run a statement of a plan."""
        return self.rows(statement.sql, *statement.parameters)

    def row(self, question: str, *parameters: object) -> tuple[Any, ...]:
        """Return the first row of a query that always has one."""
        return self.rows(question, *parameters)[0]

    def timed(self, question: str, *parameters: object) -> tuple[Any, float, float]:
        """Return the value, and this machine's time right before and after the query."""
        asked_at = self._clock.wall()
        row = self._raw.execute(render(question, self._prefix), parameters).fetchone()
        answered_at = self._clock.wall()
        assert row is not None
        return row[0], asked_at, answered_at


@contextlib.contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Row]]:
    """Connect, or raise `StoreUnavailable`."""
    raw = tried(url, Config())
    if not isinstance(raw, psycopg.Connection):
        raise cannot_connect(raw, url)
    raw.prepare_threshold = None  # there may be a pooler
    raw.reply_seconds = 2 * ANSWER_SECONDS
    try:
        yield raw
    finally:
        raw.close()


# the server

STANDING = "select pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool"
# "off" and "local" wait for no standby
IS_REPLICATED = """
    select current_setting('synchronous_standby_names') <> ''
      and current_setting('synchronous_commit') not in ('off', 'local')
"""

CLOCK = "select date_part('epoch', clock_timestamp())"

SETTINGS = """
select current_setting('fsync')::bool, current_setting('full_page_writes')::bool,
       current_setting('synchronous_commit'), current_setting('server_encoding')
"""

# the server first, then the limits of the database and of the user, if any
CONNECTIONS = """
with client as (
  select pid, datname, usename, application_name from pg_stat_activity where backend_type = 'client backend'
)
select 'the server', (select count(*) from client),
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - coalesce(current_setting('reserved_connections', true), '0')::int,
       (select count(*) from client where application_name = 'rowcall' and pid <> pg_backend_pid())
union all
select 'the database', (select count(*) from client where datname = current_database()), datconnlimit, 0
from pg_database where datname = current_database() and datconnlimit >= 0
union all
select 'this user', (select count(*) from client where usename = current_user), rolconnlimit, 0
from pg_roles where rolname = current_user and rolconnlimit >= 0
"""

VACUUM_SETTINGS = """
select current_setting('autovacuum')::bool, current_setting('track_counts')::bool,
       date_part('epoch', current_setting('autovacuum_naptime')::interval)
"""

NOTIFY = "select pg_notify($1::text, '')"

NOTIFICATION_QUEUE = "select pg_notification_queue_usage()"

# what keeps dead rows from being removed

SEES_ALL = "select pg_has_role('pg_read_all_stats', 'usage')"

LONG_TRANSACTIONS = """
select pid, coalesce(usename::text, '?'), application_name, coalesce(state, backend_type),
       date_part('epoch', clock_timestamp() - xact_start)
from pg_stat_activity
where pid <> pg_backend_pid() and (backend_xmin is not null or backend_xid is not null)
  and (datname = current_database() or backend_type = 'walsender') and backend_type <> 'autovacuum worker'
  and xact_start < clock_timestamp() - $1::float8 * interval '1 second'
order by xact_start limit $2::int
"""

PREPARED_TRANSACTIONS = """
select gid, owner::text, date_part('epoch', clock_timestamp() - prepared)
from pg_prepared_xacts
where database = current_database() and prepared < clock_timestamp() - $1::float8 * interval '1 second'
order by prepared limit $2::int
"""

REPLICATION_SLOTS = """
select slot_name::text, active, age(xmin) from pg_replication_slots
where xmin is not null and (not active or age(xmin) > $1::bigint)
order by age(xmin) desc limit $2::int
"""

STANDBYS = """
select coalesce(nullif(application_name, ''), client_addr::text, '?'), age(backend_xmin) from pg_stat_replication
where backend_xmin is not null and age(backend_xmin) > $1::bigint
order by age(backend_xmin) desc limit $2::int
"""

# the tables

SCHEMA = "select relnamespace::regnamespace::text from pg_class where oid = to_regclass('<job>')"

TABLES_ELSEWHERE = """
select relnamespace::regnamespace::text from pg_class
where relname = lower('<migration>') and relkind in ('r', 'p') and oid is distinct from to_regclass('<migration>')
order by 1
"""

OTHER_PREFIXES = r"""
select distinct left(one.relname, -length('migration')) from pg_class as one
where one.relname like '%migration' and one.relkind = 'r' and pg_table_is_visible(one.oid)
  and exists (select from pg_class where relname = left(one.relname, -length('migration')) || 'job_tag'
              and relnamespace = one.relnamespace)
order by 1
"""

MISSING_PRIVILEGES = f"""
select privileges, string_agg(name, ', ' order by name)
from (
  select lower(string_agg(privilege, ', ' order by position)) as privileges, name
  from (values {", ".join(f"('{kind}', '<prefix>{name}', '{given}')" for kind, name, given in NEEDED)})
      as used (kind, name, privileges)
    cross join unnest(string_to_array(privileges, ', ')) with ordinality as needed (privilege, position)
  where not case kind when 'sequence' then has_sequence_privilege(to_regclass(name), privilege)
                      else has_table_privilege(to_regclass(name), privilege) end
  group by name
) as missing
group by 1 order by 2
"""

# the current value of each setting that the table carries, by name
TABLE_SETTINGS = """
select option_name, option_value from pg_class, pg_options_to_table(reloptions) where oid = to_regclass('<job>')
"""

DEAD_ROWS = """
select n_live_tup, n_dead_tup, date_part('epoch', clock_timestamp() - greatest(last_vacuum, last_autovacuum)),
       pg_relation_size(relid), pg_indexes_size(relid)
from pg_stat_all_tables where relid = to_regclass('<job>')
"""

BLOCKED = """
select waiting.pid, array_to_string(pg_blocking_pids(waiting.pid), ', ')
from pg_locks as waiting
where not waiting.granted and waiting.locktype = 'relation' and waiting.relation = to_regclass('<job>')
  and waiting.database = (select oid from pg_database where datname = current_database())
order by waiting.pid
"""
