"""Rows to values."""

from __future__ import annotations

from typing import cast

import msgspec

from rowcall.job import Attempt, Event, Job, Status, WorkerInfo
from rowcall.moments import time_of, time_or_none
from rowcall.payload import payload_from_row, tags_from_row, value_from_row
from rowcall.store.dialect import Glance, Inserted, Look, Owned, Peer, Ready
from rowcall.store.statement import Row

_ready = msgspec.json.Decoder(list[Ready])
_owned = msgspec.json.Decoder(list[Owned])
_ids = msgspec.json.Decoder(set[int])
_pairs = msgspec.json.Decoder(list[tuple[str, str]])


def job_from_row(row: Row) -> Job:
    (
        job_id,
        kind,
        queue,
        payload,
        status,
        priority,
        attempt,
        max_attempts,
        run_at,
        created_at,
        claimed_at,
        started_at,
        finished_at,
        worker,
        heartbeat_at,
        progress,
        result,
        error_code,
        error_detail,
        key,
        tags,
        chain_id,
        chain_index,
        expires_at,
        timeout,
        retry,
        lease,
    ) = cast(
        tuple[
            int,
            str,
            str,
            str,
            str,
            int,
            int,
            int,
            int,
            int,
            int | None,
            int | None,
            int | None,
            str | None,
            int | None,
            float | None,
            str | None,
            str | None,
            str | None,
            str | None,
            str | None,
            int | None,
            int | None,
            int | None,
            float | None,
            str | None,
            int,
        ],
        row,
    )
    return Job(
        id=job_id,
        type=kind,
        queue=queue,
        payload=payload_from_row(payload),
        status=Status(status),
        priority=priority,
        attempt=attempt,
        max_attempts=max_attempts,
        run_at=time_of(run_at),
        created_at=time_of(created_at),
        claimed_at=time_or_none(claimed_at),
        started_at=time_or_none(started_at),
        finished_at=time_or_none(finished_at),
        worker=worker,
        heartbeat_at=time_or_none(heartbeat_at),
        progress=progress,
        result=value_from_row(result),
        error_code=error_code,
        error_detail=error_detail,
        key=key,
        tags=tags_from_row(tags),
        chain_id=chain_id,
        chain_index=chain_index,
        expires_at=time_or_none(expires_at),
        timeout=timeout,
        retry=retry,
        lease=lease,
    )


def attempt_from_row(row: Row) -> Attempt:
    job_id, attempt, status, claimed_at, started_at, finished_at, worker, code, detail, traceback, next_run_at = row
    return Attempt(
        job_id=cast(int, job_id),
        attempt=cast(int, attempt),
        status=cast(str, status),
        claimed_at=time_of(cast(int, claimed_at)),
        started_at=time_or_none(cast(int | None, started_at)),
        finished_at=time_or_none(cast(int | None, finished_at)),
        worker=cast(str | None, worker),
        error_code=cast(str | None, code),
        error_detail=cast(str | None, detail),
        traceback=cast(str | None, traceback),
        next_run_at=time_or_none(cast(int | None, next_run_at)),
    )


def event_from_row(row: Row) -> Event:
    at, event, actor, detail = row
    return Event(
        at=time_of(cast(int, at)),
        event=cast(str, event),
        actor=cast(str | None, actor),
        detail=cast(str | None, detail),
    )


def worker_from_row(row: Row) -> WorkerInfo:
    name, host, pid, queues, concurrency, version, started_at, beat, beat_at, running = row
    return WorkerInfo(
        name=cast(str, name),
        host=cast(str, host),
        pid=cast(int, pid),
        queues=cast(str, queues),
        concurrency=cast(int, concurrency),
        version=cast(str, version),
        started_at=time_of(cast(int, started_at)),
        beat=cast(int, beat),
        beat_at=time_of(cast(int, beat_at)),
        running=cast(int, running),
    )


def inserted_from_row(row: Row) -> Inserted:
    job_id, status, run_at, created_at, expires_at = cast(tuple[int, str, int, int, int | None], row)
    return Inserted(job_id, status, run_at, created_at, expires_at)


def look_from_row(row: Row) -> Look:
    now_ms, due_at, expires_at, registered, ready = cast(tuple[int, int | None, int | None, int, str], row)
    return Look(now_ms, due_at, expires_at, bool(registered), _pairs.decode(ready))


def glance_from_row(row: Row) -> Glance:
    now_ms, any_ready, due_at, expires_at = cast(tuple[int, int, int | None, int | None], row)
    return Glance(now_ms, bool(any_ready), due_at, expires_at)


def peer_from_row(row: Row) -> Peer:
    name, host, beat, lease_ms, lock_path = cast(tuple[str, str, int, int, str | None], row)
    return Peer(name, host, beat, lease_ms, lock_path)


def ready_from_row(row: Row) -> list[Ready]:
    return _ready.decode(cast(str, row[0]))


def owned_from_row(row: Row) -> list[Owned]:
    return _owned.decode(cast(str, row[0]))


def ids_from_row(row: Row) -> set[int]:
    return _ids.decode(cast(str, row[0]))


def count_from_row(row: Row) -> tuple[str, str, int]:
    return cast(tuple[str, str, int], row)


def number_from_row(row: Row) -> int:
    return cast(int, row[0])
