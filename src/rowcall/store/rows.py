"""Rows to values, alike for every database: its statements give times in milliseconds and JSON as text."""

from __future__ import annotations

from typing import cast

import msgspec

from rowcall.base.times import EPOCH, time_of
from rowcall.domain.job import Attempt, Event, WorkerInfo
from rowcall.store.columns import job_from_row as job_from_row
from rowcall.store.columns import milliseconds as milliseconds
from rowcall.store.columns import text, time
from rowcall.store.dialect import Concerned, Glance, Inserted, Look, Mismatch, Owned, Peer, Ready, Version
from rowcall.store.flows.queries import Touched
from rowcall.store.statement import Row

_ready = msgspec.json.Decoder(list[Ready])
_mismatched = msgspec.json.Decoder(list[Mismatch])
_owned = msgspec.json.Decoder(list[Owned])
_ids = msgspec.json.Decoder(set[int])
_pairs = msgspec.json.Decoder(list[tuple[str, str]])


def attempt_from_row(row: Row) -> Attempt:
    job_id, attempt, status, claimed_at, started_at, finished_at, worker, code, detail, traceback, next_run_at = row
    return Attempt(
        job_id=cast("int", job_id),
        attempt=attempt if isinstance(attempt, int) else 0,
        status=text(status) or "",
        claimed_at=time(claimed_at) or EPOCH,
        started_at=time(started_at),
        finished_at=time(finished_at),
        worker=text(worker),
        error_code=text(code),
        error_detail=text(detail),
        traceback=text(traceback),
        next_run_at=time(next_run_at),
    )


def event_from_row(row: Row) -> Event:
    at, event, actor, detail = row
    return Event(
        at=time(at) or EPOCH,
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


def end_from_row(row: Row) -> tuple[int, int]:
    return cast("tuple[int, int]", row)


def touched_from_row(row: Row) -> Touched:
    return Touched(*cast("tuple[int, str, str, int]", row))
