"""Where `rowcall bench` measures: in a file that is removed again, or in tables of a server that are."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.cli.target import url_of
from rowcall.store.statement import Statement, execute, no_row

DEFAULT_PREFIX = "rowcall_"

REMOVE = """
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


class Place(msgspec.Struct, frozen=True):
    """A queue of its own. `described` is said with the figures."""

    url: str
    prefix: str
    described: str


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="rowcall-bench-", dir=folder) as temporary:
        yield Place(
            url_of(Path(temporary, "bench.db")), DEFAULT_PREFIX, f"durable commits, on the disk of {folder.resolve()}"
        )


@contextlib.contextmanager
def on_server(url: str) -> Iterator[Place]:
    prefix = f"rowcall_bench_{secrets.token_hex(4)}_"
    with Rowcall(url, table_prefix=prefix) as jobs:
        if jobs.config.server is None:
            raise click.UsageError("--url is for a server; a disk is measured with --folder")
        try:
            yield Place(url, prefix, f"commits as the server is set, on {jobs.database.name}")
        finally:
            removal = REMOVE.replace("<prefix>", prefix)
            jobs.database.write(lambda: execute(Statement(removal, (), no_row)))
