"""Checks of what is in the file: whether it is whole, how it is set, which tables it has, who works on it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

from rowcall.cli.doctor import service
from rowcall.cli.doctor.finding import Finding, Level, ok, problem, warn
from rowcall.cli.doctor.probe import looking, version_in
from rowcall.cli.doctor.service import MOST_SHOWN, Asked, SeenWorker
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.sqlite.errors import explained, lock_holders
from rowcall.observe.health import OVERSIZED_WAL_BYTES
from rowcall.overview.liveness import liveness
from rowcall.store.sqlite.schema import NEWEST_VERSION
from rowcall.store.sqlite.words import TABLES, render


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
    if version_in(raw, prefix).found:  # else the first use switches it
        yield _journal(raw)
    if raw.execute("pragma page_count").fetchone()[0]:  # an empty file gets it with its first table
        yield _vacuum(raw)
    yield _wal(path)
    yield _lock(path)
    schema = _schema(raw, prefix, asked)
    yield schema
    if schema.level == Level.OK:
        yield _foreign_keys(raw, prefix)
        yield from _service(raw, prefix, asked)


def _service(raw: sqlite3.Connection, prefix: str, asked: Asked) -> Iterator[Finding]:
    workers = _read_workers(raw, prefix)
    living = service.alive(workers)
    yield from service.check_workers(workers, asked)
    waiting, longest_ms = raw.execute(render(_DUE, prefix)).fetchone()
    yield service.check_waiting(waiting, longest_ms / 1000, bool(living), asked)
    paused = raw.execute(render(_PAUSED, prefix)).fetchall()
    yield from service.check_pauses([(kind, name, actor, ms / 1000) for kind, name, actor, ms in paused], asked)
    yield from service.check_limits(raw.execute(render(_KEPT_SLOTS, prefix)).fetchall())
    yield from service.check_queues(raw.execute(render(_BY_QUEUE, prefix)).fetchall(), living)
    by_type = [(kind, count, waited_ms / 1000) for kind, count, waited_ms in raw.execute(render(_BY_TYPE, prefix))]
    yield from service.check_tasks(by_type, asked)
    (mismatched,) = raw.execute(render(_MISMATCHED_COUNT, prefix)).fetchone()
    yield from service.check_mismatched(mismatched, raw.execute(render(_MISMATCHED, prefix)).fetchone())
    newest = raw.execute(render(_NEWEST, prefix)).fetchone()
    yield service.check_future(newest[0] / 1000 if newest else 0.0)


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


def _schema(raw: sqlite3.Connection, prefix: str, asked: Asked) -> Finding:
    version = version_in(raw, prefix)
    hint = ""
    if version.found == 0:
        others = [row[0].removesuffix("migration") for row in raw.execute(_OTHER_PREFIXES)]
        hint = asked.prefix_hint(others)
    return service.check_version(version, NEWEST_VERSION, prefix, asked, hint=hint)


def _read_workers(raw: sqlite3.Connection, prefix: str) -> list[SeenWorker]:
    return [
        SeenWorker(name, queues, liveness(lock_path, silent_ms / 1000, lease_ms / 1000), silent_ms / 1000, running)
        for name, queues, lock_path, lease_ms, silent_ms, running in raw.execute(render(_WORKERS, prefix))
    ]


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
_DUE = """
select (select count(*) from <job> where status = 'pending')
     + (select count(*) from <job> where status = 'scheduled' and run_at <= <clock>),
       <clock> - min(
         ifnull((select min(max(run_at, created_at)) from <job> where status = 'pending' and held is null), <clock>),
         ifnull((select min(max(run_at, created_at)) from <job>
                 where status = 'scheduled' and run_at <= <clock>), <clock>))
"""
_READY = "where status = 'pending' and held is null"
_BY_QUEUE = f"select queue, count(*) from <job> {_READY} group by queue"
_BY_TYPE = f"""
select type, count(*), <clock> - min(max(run_at, created_at)) from <job> {_READY} group by type
"""
_HELD = "where status = 'pending' and held = 'mismatch'"
_MISMATCHED_COUNT = f"select count(*) from <job> {_HELD}"
_MISMATCHED = f"select id, type, worker, error_detail from <job> {_HELD} order by id limit 1"
_PAUSED = "select kind, name, actor, max(0, <clock> - at) from <pause> order by kind, name"
_KEPT_SLOTS = """
select slot.limit_key, slot.worker, slot.job_id from <slot> as slot join <worker> as worker on worker.name = slot.worker
where not exists (
  select 1 from <job> as job where job.id = slot.job_id and job.lease = slot.lease and job.status = 'running')
order by slot.job_id, slot.limit_key
"""
_NEWEST = "select created_at - <clock> from <job> order by id desc limit 1"
