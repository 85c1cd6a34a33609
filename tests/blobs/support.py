"""What lies in the store of a queue, seen past the code that put it there."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.domain.blobs import reference_of
from rowcall.domain.job import Job
from rowcall.operations.effects import Read
from rowcall.store.statement import Row, Statement, as_is, fetch
from tests.connected import connected

TEXT = "x" * 5000
DAY = 86_400.0


def rows(jobs: Rowcall, sql: str) -> list[Row]:
    return queue_of(jobs).run(Read(fetch(Statement(sql, (), as_is))))


def referred(jobs: Rowcall) -> list[tuple[str, int]]:
    return [(str(digest), int(str(job))) for digest, job in rows(jobs, "select digest, job_id from rowcall_blob_ref")]


def digest_in_row(jobs: Rowcall, job: Job, column: str = "payload") -> str | None:
    """The digest that the row holds; None where it holds the value itself."""
    ((text,),) = rows(jobs, f"select cast({column} as text) from rowcall_job where id = {job.id}")
    reference = reference_of(str(text))
    return None if reference is None else reference.digest


class Shelves:
    """The folder next to a file, or the table of a server."""

    def __init__(self, jobs: Rowcall) -> None:
        self._jobs = jobs
        self._folder = Path(f"{queue_of(jobs).database.path}-blobs") if queue_of(jobs).database.path else None

    @property
    def digests(self) -> set[str]:
        if self._folder is not None:
            return {path.name for path in self._folder.glob("*/*")}
        return {str(row[0]) for row in rows(self._jobs, "select digest from rowcall_blob")}

    def damage(self, digest: str) -> None:
        if self._folder is not None:
            path = self._folder / digest[:2] / digest
            path.write_bytes(b"?" + path.read_bytes()[1:])
        else:
            self._execute(f"update rowcall_blob set data = 'no'::bytea where digest = '{digest}'")

    def remove(self, digest: str) -> None:
        if self._folder is not None:
            (self._folder / digest[:2] / digest).unlink()
        else:
            self._execute(f"delete from rowcall_blob where digest = '{digest}'")

    def put(self, data: bytes) -> None:
        queue_of(self._jobs).blobs.store.put(hashlib.sha256(data).hexdigest(), data)

    def age(self, seconds: float = 2 * DAY) -> None:
        """As if all had been put that long ago."""
        if self._folder is not None:
            for path in self._folder.glob("*/*"):
                os.utime(path, (time.time() - seconds, time.time() - seconds))
        else:
            self._execute(f"update rowcall_blob set touched_at = clock_timestamp() - interval '{seconds} seconds'")

    def _execute(self, sql: str) -> None:
        server = queue_of(self._jobs).config.server
        assert server is not None
        with connected(server.url) as connection:
            connection.execute(sql.encode())
