"""Rows to values, alike for every database: its statements give times in milliseconds and JSON as text."""

from __future__ import annotations

from datetime import datetime
from typing import cast

import msgspec

from rowcall.base.times import EPOCH, time_of
from rowcall.domain.job import Attempt, Event, Job, Status, WorkerInfo
from rowcall.domain.payload import payload_from_row, tags_from_row, value_from_row
from rowcall.store.dialect import Concerned, Glance, Inserted, Look, Mismatch, Owned, Peer, Pin, Ready, Version
from rowcall.store.flows.contract import Touched
from rowcall.store.statement import Row

_ready = msgspec.json.Decoder(list[Ready])
_mismatched = msgspec.json.Decoder(list[Mismatch])
_owned = msgspec.json.Decoder(list[Owned])
_ids = msgspec.json.Decoder(set[int])
_pairs = msgspec.json.Decoder(list[tuple[str, str]])


def job_from_row(row: Row) -> Job:
    (
        job_id, kind, queue, payload, status, priority, attempt, max_attempts, run_at, created_at, claimed_at,
        started_at, finished_at, worker, heartbeat_at, progress, progress_message, result, error_code, error_detail,
        key, tags, chain_id, chain_index, expires_at, timeout, retry, lease,
    ) = row  # fmt: skip
    return Job(
        id=cast("int", job_id),
        type=cast("str", kind),
        queue=cast("str", queue),
        payload=payload_from_row(cast("str", payload)),
        status=Status(cast("str", status)),
        priority=cast("int", priority),
        attempt=cast("int", attempt),
        max_attempts=cast("int", max_attempts),
        run_at=time_of(cast("int", run_at)),
        created_at=time_of(cast("int", created_at)),
        claimed_at=_time(claimed_at),
        started_at=_time(started_at),
        finished_at=_time(finished_at),
        worker=text(worker),
        heartbeat_at=_time(heartbeat_at),
        progress=progress if isinstance(progress, float) else None,
        progress_message=text(progress_message),
        result=value_from_row(text(result)),
        error_code=text(error_code),
        error_detail=text(error_detail),
        key=cast("str | None", key),
        tags=tags_from_row(cast("str | None", tags)),
        chain_id=cast("int | None", chain_id),
        chain_index=cast("int | None", chain_index),
        expires_at=_time(expires_at),
        timeout=cast("float | None", timeout),
        retry=cast("str | None", retry),
        lease=cast("int", lease),
    )


# In columns that only workers write, SQLite keeps whatever plain SQL put there: each claim would pay for a check.


def milliseconds(value: object) -> int | None:
    """A time in a column that is not checked; what is not a time is not shown."""
    return value if isinstance(value, int) else None


def _time(value: object) -> datetime | None:
    return time_of(value) if isinstance(value, int) else None


def text(value: object) -> str | None:
    """A text in a column that is not checked."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def attempt_from_row(row: Row) -> Attempt:
    job_id, attempt, status, claimed_at, started_at, finished_at, worker, code, detail, traceback, next_run_at = row
    return Attempt(
        job_id=cast("int", job_id),
        attempt=attempt if isinstance(attempt, int) else 0,
        status=text(status) or "",
        claimed_at=_time(claimed_at) or EPOCH,
        started_at=_time(started_at),
        finished_at=_time(finished_at),
        worker=text(worker),
        error_code=text(code),
        error_detail=text(detail),
        traceback=text(traceback),
        next_run_at=_time(next_run_at),
    )


def event_from_row(row: Row) -> Event:
    at, event, actor, detail = row
    return Event(
        at=_time(at) or EPOCH,
        event=text(event) or "",
        actor=text(actor),
        detail=text(detail),
    )


def worker_from_row(row: Row) -> WorkerInfo:
    name, host, pid, queues, concurrency, version, started_at, beat, beat_at, lease_ms, lock_path, running = row
    return WorkerInfo(
        name=cast("str", name),
        host=cast("str", host),
        pid=cast("int", pid),
        queues=cast("str", queues),
        concurrency=cast("int", concurrency),
        version=cast("str", version),
        started_at=time_of(cast("int", started_at)),
        beat=cast("int", beat),
        beat_at=time_of(cast("int", beat_at)),
        lease_seconds=cast("int", lease_ms) / 1000,
        lock_path=cast("str | None", lock_path),
        running=cast("int", running),
    )


def inserted_from_row(row: Row) -> Inserted:
    job_id, status, run_at, created_at, expires_at = cast("tuple[int, str, int, int, int | None]", row)
    return Inserted(job_id, status, run_at, created_at, expires_at)


def look_from_row(row: Row) -> Look:
    now_ms, due_at, expires_at, registered, ready, wake_at, paused, edges_open, edges_unsure, slots, waiters = cast(
        "tuple[int, int | None, int | None, int, str, int | None, str, int, int, int, int]", row
    )
    return Look(
        now_ms,
        due_at,
        expires_at,
        bool(registered),
        _pairs.decode(ready),
        wake_at,
        _pairs.decode(paused),
        bool(edges_open),
        bool(edges_unsure),
        bool(slots),
        bool(waiters),
    )


def concerned_from_row(row: Row) -> Concerned:
    return Concerned(*map(bool, row))


def glance_from_row(row: Row) -> Glance:
    now_ms, any_ready, due_at, expires_at, wake_at, unsure = cast(
        "tuple[int, int, int | None, int | None, int | None, int]", row
    )
    return Glance(now_ms, bool(any_ready), due_at, expires_at, wake_at, bool(unsure))


def peer_from_row(row: Row) -> Peer:
    name, host, beat, lease_ms, lock_path = cast("tuple[str, str, int, int, str | None]", row)
    return Peer(name, host, beat, lease_ms, lock_path)


def ready_from_row(row: Row) -> list[Ready]:
    return _ready.decode(cast("str", row[0]))


def mismatched_from_row(row: Row) -> tuple[int, list[Mismatch]]:
    now_ms, jobs = cast("tuple[int, str]", row)
    return now_ms, _mismatched.decode(jobs)


def owned_from_row(row: Row) -> list[Owned]:
    return _owned.decode(cast("str", row[0]))


def ids_from_row(row: Row) -> set[int]:
    return _ids.decode(cast("str", row[0]))


def pair_from_row(row: Row) -> tuple[str, str]:
    return cast("tuple[str, str]", row)


def version_from_row(row: Row) -> Version:
    found, oldest, missing = cast("tuple[int, int, str | None]", row)
    return Version(found, oldest, tuple(missing.split(",")) if missing else ())


def text_from_row(row: Row) -> str:
    return cast("str", row[0])


def lease_from_row(row: Row) -> tuple[int, tuple[int, str]]:
    job_id, lease, status = cast("tuple[int, int, str]", row)
    return job_id, (lease, status)


def number_from_row(row: Row) -> int:
    return cast("int", row[0])


def bytes_from_row(row: Row) -> bytes:
    return cast("bytes", row[0])


def pin_from_row(row: Row) -> Pin:
    return Pin(*cast("tuple[str, str, str]", row))


def end_from_row(row: Row) -> tuple[int, int]:
    return cast("tuple[int, int]", row)


def touched_from_row(row: Row) -> Touched:
    return Touched(*cast("tuple[int, str, str, int]", row))
