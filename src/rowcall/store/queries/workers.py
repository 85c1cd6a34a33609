"""Workers: registration, heartbeats, and the jobs that recovery finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import msgspec

from rowcall.base.text import decoded
from rowcall.base.times import time_of
from rowcall.domain.job import WorkerInfo
from rowcall.store.columns import struct_from_row
from rowcall.store.statement import Int, Now, Packed, Query, Row, Text, text_from_row

OPENED_PREFIX = "push to "
"""What the column `worker` begins with while a target is to call back."""


class Owned(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A running job, as recovery sees it. Its row may be gone: then only its claim is left to delete."""

    id: int
    lease: int
    holder: int
    attempt: int
    max_attempts: int
    started: bool
    queue: str
    type: str
    opened: bool = False
    """Whether a target had accepted it, and was to call back."""


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    host: str
    pid: int
    queues: str
    concurrency: int
    version: str
    lease_ms: int
    lock_path: str | None
    served: str | None = None
    """The names of its queues as a JSON array, or None for all."""
    tasks: str | None = None
    """The tasks that it knows as a JSON object of names and fingerprints, or None if it may know any."""
    code: str | None = None
    """What changes with the code of the app, or None if that is not known."""


class KnownTasks(NamedTuple):
    """What a worker serves and knows: fingerprints by the names of tasks, or None if it may know any task."""

    worker: str
    queues: str
    tasks: Mapping[str, str] | None


class Peer(msgspec.Struct, frozen=True):
    """Another worker, as the recovery sees it."""

    name: str
    queues: str
    heartbeats: int
    lease_ms: int
    lock_path: str | None


class Survey(msgspec.Struct, frozen=True):
    """The registered workers, whether some running jobs have no worker, and whether some jobs are held."""

    peers: list[Peer]
    any_lease_expired: bool
    any_orphan: bool
    any_held: bool


_peers = msgspec.json.Decoder(list[tuple[str, str, int, int, str | None]])
_tasks = msgspec.json.Decoder(dict[str, str])


def _tasks_of(tasks: str | None) -> dict[str, str] | None:
    return None if tasks is None else decoded(_tasks, tasks, None)


_worker = {
    **dict.fromkeys(("started_at", "heartbeat_at"), time_of),
    "lease_seconds": lambda lease_ms: lease_ms / 1000,
    "tasks": lambda tasks: None if (known := _tasks_of(tasks)) is None else list(known),
}

_worker_from_row = struct_from_row(WorkerInfo, WorkerInfo.__struct_fields__, _worker)


def worker_from_row(row: Row) -> WorkerInfo:
    """A worker starts what it has slots for. The rows of short attempts do not say that they came out of the buffer."""
    *fields, claimed, started, tasks = row
    concurrency = cast("int", row[4])
    running = min(cast("int", claimed), max(cast("int", started), concurrency))
    return _worker_from_row((*fields, running, cast("int", claimed) - running, tasks))


def known_from_row(row: Row) -> KnownTasks:
    name, queues, tasks = cast("tuple[str, str, str | None]", row)
    return KnownTasks(name, queues, _tasks_of(tasks))


def survey_from_row(row: Row) -> Survey:
    peers, *flags = cast("tuple[str, int, int, int]", row)
    return Survey([Peer(*peer) for peer in _peers.decode(peers)], *map(bool, flags))


REGISTER_WORKER = Query("register_worker", (Now, Text, Text, Int, Text, Int, Text, Int, Text))
# the queues that a worker serves, as a JSON array: only their jobs notify it
SET_SERVED = Query("set_served", (Text, Text), only=("postgres",))
# a heartbeat of a worker that has stopped; no row if it is gone, or owns jobs that must be recovered
SERVE_NOTHING = Query("serve_nothing", (Now, Text))
SET_TASKS = Query("set_tasks", (Text, Text), text="update <worker> set tasks = <text:2> where name = <text:1>")
REMOVE_WORKER = Query("remove_worker", (Text,), text="delete from <worker> where name = <text:1>")
# unless it owns jobs; returns a row if it is gone now
_REMOVE_IDLE_WORKER = """
    delete from <worker> where name = <text:1>
      and not exists (select 1 from <claim> where worker = <text:1> and lease_until is null)
    returning name"""
REMOVE_IDLE_WORKER = Query("remove_idle_worker", (Text,), text=_REMOVE_IDLE_WORKER)
_HEARTBEAT_OF_WORKER = (
    "update <worker> set heartbeats = heartbeats + 1, heartbeat_at = <now> where name = <text:2> returning heartbeats"
)
HEARTBEAT_OF_WORKER = Query("heartbeat_of_worker", (Now, Text), text=_HEARTBEAT_OF_WORKER)
# keeps a worker that seems lost from claiming until the transaction ends; no row while it is claiming, or if its
# heartbeat has changed
LOCK_WORKER = Query("lock_worker", (Text, Int))
SURVEY = Query("survey", (Now,), survey_from_row)
OWNED_BY = Packed("owned_by", (Text, Int), Owned)  # jobs that may be released or recovered now
OWNED_BY_HOLDER = Packed("owned_by_holder", (Int,), Owned)  # as far as is committed, without a lock
ORPHANS = Packed("orphans", (Int,), Owned)
LEASE_EXPIRED = Packed("lease_expired", (Now, Int), Owned)
# whether transactions that commit jobs must notify
MARK_LISTENING = Query("mark_listening", (Text, Int), only=("postgres",))
OPEN_WRITERS = Query("open_writers", (), text_from_row, only=("postgres",))

# inspect
_KNOWN_TASKS = "select name, queues, tasks from <worker> where concurrency > 0"
KNOWN_TASKS = Query("known_tasks", (), known_from_row, text=_KNOWN_TASKS)
# its claimed jobs, and how many of them have started as far as rows say
_WORKERS = """
    select worker.name, worker.host, worker.pid, worker.queues, worker.concurrency, worker.version,
           <ms:worker.started_at>, worker.heartbeats, <ms:worker.heartbeat_at>, worker.lease_ms, worker.lock_path,
           coalesce(held.claimed, 0), coalesce(held.started, 0), worker.tasks
    from <worker> as worker left join (
      select worker as name, count(*) as claimed, count(started_at) as started from <claim>
      where lease_until is null group by worker) as held on held.name = worker.name
    order by worker.started_at, worker.name"""
WORKERS = Query("workers", (), worker_from_row, text=_WORKERS)
