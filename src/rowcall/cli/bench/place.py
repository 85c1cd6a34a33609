"""Where `rowcall bench` measures: in a temporary file, or in temporary tables on a server."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from rowcall.app import Rowcall, queue_of
from rowcall.cli.target import url_of
from rowcall.operations.scratch_tables import drop_tables

DEFAULT_PREFIX = "rowcall_"


class Place(msgspec.Struct, frozen=True):
    """A new queue. `described` is printed with the figures."""

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
        queue = queue_of(jobs)
        if queue.config.server is None:
            raise click.UsageError("--url must name a server; use --folder to measure a disk")
        try:
            yield Place(url, prefix, f"commits as the server is configured, on {queue.database.name}")
        finally:
            drop_tables(queue)
