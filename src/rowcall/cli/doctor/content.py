"""Checks of what is in the file: whether it is whole, how it is set, which tables it has, who works on it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from rowcall.cli.doctor.finding import Finding, Level, ok, problem, warn
from rowcall.cli.liveness import Liveness, liveness
from rowcall.cli.output import span
from rowcall.cli.probe import looking, version_in
from rowcall.cli.target import work_command_for
from rowcall.drivers.sqlite_connection import WAL_LIMIT_BYTES
from rowcall.drivers.sqlite_errors import explained, lock_holders
from rowcall.errors import StoreUnavailable
from rowcall.store.sqlite.schema import CLOCK, NEWEST_VERSION, TABLES, render

OVERSIZED_WAL_BYTES = 4 * WAL_LIMIT_BYTES
MOST_SHOWN = 5


class Asked(NamedTuple):
    """The app that was named, if one was, and the tasks it declares."""

    app: str | None
    tasks: frozenset[str]

    @property
    def work_command(self) -> str:
        return work_command_for(self.app)


def check_content(path: str, prefix: str, asked: Asked) -> Iterator[Finding]:
    """Look into an existing file, without changing it."""
    try:
        with looking(path) as raw:
            raw.execute("select count(*) from sqlite_master").fetchone()
            yield from _checks(raw, path, prefix, asked)
    except sqlite3.Error as error:
        said = explained(error, path)
        what, advice = (said.problem, said.advice) if isinstance(said, StoreUnavailable) else (str(said), "")
        yield problem("database", what, advice or "Nothing further was looked at")


def _checks(raw: sqlite3.Connection, path: str, prefix: str, asked: Asked) -> Iterator[Finding]:
    yield _integrity(raw)
    yield _journal(raw)
    yield _vacuum(raw)
    yield _wal(path)
    yield _lock(path)
    schema = _schema(raw, prefix)
    yield schema
    if schema.level == Level.OK:
        yield _foreign_keys(raw, prefix)
        workers = _read_workers(raw, prefix)
        alive = [worker for worker in workers if worker.state == Liveness.ALIVE]
        yield from _workers(workers, asked.work_command)
        yield _waiting(raw, prefix, bool(alive), asked.work_command)
        yield from _unserved(raw, prefix, alive)
        yield from _undeclared(raw, prefix, asked)
        yield _future(raw, prefix)


def _integrity(raw: sqlite3.Connection) -> Finding:
    complaints = [str(row[0]) for row in raw.execute(f"pragma quick_check({MOST_SHOWN})")]
    if complaints == ["ok"]:
        return ok("integrity", "the file is whole")
    return problem(
        "integrity",
        f"the file is damaged: {'; '.join(complaints)}",
        "Stop all that uses it, keep a copy, then save what can be read: sqlite3 FILE .recover | sqlite3 NEW",
    )


def _foreign_keys(raw: sqlite3.Connection, prefix: str) -> Finding:
    orphans = {table: len(raw.execute(f"pragma foreign_key_check({prefix}{table})").fetchall()) for table in TABLES}
    said = ", ".join(f"{count} in {prefix}{table}" for table, count in orphans.items() if count)
    if not said:
        return ok("foreign keys", "no row points to a row that is gone")
    return problem(
        "foreign keys",
        f"rows point to jobs that are gone: {said}",
        "Somebody deleted jobs without `pragma foreign_keys = on`; delete these rows (pragma foreign_key_check)",
    )


def _journal(raw: sqlite3.Connection) -> Finding:
    mode: str = raw.execute("pragma journal_mode").fetchone()[0]
    if mode == "wal":
        return ok("journal", "write-ahead log")
    what = f"the journal mode is {mode}, not wal"
    return warn(
        "journal", what, "Rowcall switches it when it opens the file; if it stays so, the file system is in the way"
    )


def _vacuum(raw: sqlite3.Connection) -> Finding:
    if raw.execute("pragma auto_vacuum").fetchone()[0] == 2:
        return ok("vacuum", "pages of deleted jobs go back to the disk (incremental)")
    free, pages = (raw.execute(f"pragma {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
    return warn(
        "vacuum",
        f"auto_vacuum is not incremental, so the file never shrinks ({free} of {pages} pages are free)",
        "It cannot be set on a file that has tables, but once, while nobody uses it: "
        "sqlite3 FILE 'pragma auto_vacuum = incremental; vacuum'",
    )


def _wal(path: str) -> Finding:
    try:
        size = os.path.getsize(f"{path}-wal")
    except FileNotFoundError:
        return ok("wal", "empty")
    said = f"the write-ahead log has {size / 1024**2:.1f} MB"
    if size <= OVERSIZED_WAL_BYTES:
        return ok("wal", said)
    return warn("wal", said, "Somebody keeps a read transaction open for long: find it, end it, and the log shrinks")


def _lock(path: str) -> Finding:
    holders = sorted(lock_holders(path))
    if not holders:
        return ok("write lock", "free")
    said = ", ".join(str(pid) for pid in holders)
    return warn(
        "write lock",
        f"held now by process {said}",
        "Nothing to do if it comes and goes; if the same process stays, end its transaction (or the process)",
    )


def _schema(raw: sqlite3.Connection, prefix: str) -> Finding:
    found = version_in(raw, prefix)
    if found == NEWEST_VERSION:
        return ok("tables", f"version {found}")
    if found == 0:
        others = [row[0].removesuffix("migration") for row in raw.execute(_OTHER_PREFIXES)]
        hint = f"; there are tables of the prefix {', '.join(others)}: name the app instead of --url" if others else ""
        return problem("tables", f"there are no tables named {prefix}*", f"Make them with: rowcall migrate{hint}")
    if found < NEWEST_VERSION:
        what = f"version {found}, and this code needs {NEWEST_VERSION}"
        return problem("tables", what, "Bring them up to date with: rowcall migrate")
    what = f"version {found} is newer than this code, which knows {NEWEST_VERSION}"
    return problem("tables", what, "Install the newer Rowcall here")


_OTHER_PREFIXES = r"""
select name from sqlite_master as one
where type = 'table' and name like '%migration'
  and exists (select 1 from sqlite_master where name = substr(one.name, 1, length(one.name) - 9) || 'job_tag')
"""


_WORKERS = """
select name, queues, lock_path, lease_ms, <clock> - beat_at,
       (select count(*) from <job> where status = 'running' and lease_until is null and worker = name)
from <worker>
"""


class _Worker(NamedTuple):
    name: str
    queues: str
    state: Liveness
    silent_seconds: float
    running: int


def _read_workers(raw: sqlite3.Connection, prefix: str) -> list[_Worker]:
    return [
        _Worker(name, queues, liveness(lock_path, silent_ms / 1000, lease_ms / 1000), silent_ms / 1000, running)
        for name, queues, lock_path, lease_ms, silent_ms, running in raw.execute(render(_WORKERS, prefix))
    ]


def _workers(workers: list[_Worker], work_command: str) -> Iterator[Finding]:
    for worker in workers:
        if worker.state == Liveness.GONE:
            what = f"{worker.name} has died, with {worker.running} jobs"
            yield warn("workers", what, f"Any living worker gives them back within 2 s: {work_command}")
        elif worker.state == Liveness.SILENT:
            what = f"{worker.name} was last heard of {span(worker.silent_seconds)} ago, with {worker.running} jobs"
            yield warn("workers", what, "If it hangs, end it; any living worker gives its jobs back after its lease")
    alive = sum(worker.state == Liveness.ALIVE for worker in workers)
    if alive:
        yield ok("workers", f"{alive} alive")


def _waiting(raw: sqlite3.Connection, prefix: str, worked_on: bool, work_command: str) -> Finding:
    waiting, longest_ms = raw.execute(render(_DUE, prefix)).fetchone()
    if not waiting:
        return ok("waiting", "no job that is due waits")
    longest = span(longest_ms / 1000)
    said = f"{waiting:,} jobs that are due wait, the first for {longest}"
    if waiting == 1:
        said = f"1 job that is due waits, for {longest}"
    if not worked_on:
        return warn("waiting", f"{said}, and no worker is alive", f"Start one: {work_command}")
    if longest_ms > _LONG_WAIT_MS:
        return warn(
            "waiting", said, "Add workers or concurrency, or see whether their workers know these tasks and queues"
        )
    return ok("waiting", said)


_LONG_WAIT_MS = 10 * 60 * 1000
# the oldest is told by its id: the time of each would have to be read from its row
_DUE = """
select (select count(*) from <job> where status = 'pending')
     + (select count(*) from <job> where status = 'scheduled' and run_at <= <clock>),
       <clock> - min(
         ifnull((select run_at from <job> where status = 'pending' order by id limit 1), <clock>),
         ifnull((select min(run_at) from <job> where status = 'scheduled'), <clock>))
"""


def _unserved(raw: sqlite3.Connection, prefix: str, alive: list[_Worker]) -> Iterator[Finding]:
    """Queues in which jobs wait, and which no living worker looks at; where none lives, that is said already."""
    if not alive:
        return
    counts = raw.execute(f"select queue, count(*) from {prefix}job {_READY} group by queue").fetchall()
    unserved = [(queue, count) for queue, count in counts if not any(_serves(worker, queue) for worker in alive)]
    if unserved:
        served = ", ".join(sorted({worker.queues for worker in alive}))
        yield warn(
            "queues",
            f"no living worker serves {_listed(unserved)}; the living ones serve {served}",
            "Start a worker for them, or correct the --queues of those that run",
        )


def _serves(worker: _Worker, queue: str) -> bool:
    if worker.queues == "*" or queue in (part.partition("=")[0] for part in worker.queues.split(",")):
        return True
    # given by a mapping, a name may have what separates names: then it cannot be told apart for sure
    return ("," in queue or "=" in queue) and queue in worker.queues


def _undeclared(raw: sqlite3.Connection, prefix: str, asked: Asked) -> Iterator[Finding]:
    """Jobs that wait because the app that was named has no function for them."""
    if asked.app is None:
        return
    counts = raw.execute(render(_BY_TYPE, prefix)).fetchall()
    unknown = [
        (kind, count)
        for kind, count, waited_ms in counts
        if kind not in asked.tasks and waited_ms > _NOTICEABLE_WAIT_MS
    ]
    if unknown:
        yield warn(
            "tasks",
            f"{asked.app} declares no task for {_listed(unknown)}",
            "Nothing to do if workers of another app run them; otherwise declare the tasks, or delete the jobs",
        )


def _listed(counts: list[tuple[str, int]]) -> str:
    said = ", ".join(f"{name} ({count:,} waiting)" for name, count in counts[:MOST_SHOWN])
    return said if len(counts) <= MOST_SHOWN else f"{said} and {len(counts) - MOST_SHOWN} more"


_NOTICEABLE_WAIT_MS = 5000
_READY = "where status = 'pending' and held is null"
_BY_TYPE = f"""
select type, number, <clock> - (select run_at from <job> where id = first)
from (select type, count(*) as number, min(id) as first from <job> {_READY} group by type)
"""


def _future(raw: sqlite3.Connection, prefix: str) -> Finding:
    """Rows from the future were written by a clock that was wrong, or this one is."""
    newest = raw.execute(f"select created_at - {CLOCK} from {prefix}job order by id desc limit 1").fetchone()
    ahead_ms = newest[0] if newest else 0
    if ahead_ms < 5000:
        return ok("clock of the rows", "no job comes from the future")
    what = f"a job was created {span(ahead_ms / 1000)} in the future"
    return warn("clock of the rows", what, "The clock was set back, or another host's is ahead: run NTP on all of them")
