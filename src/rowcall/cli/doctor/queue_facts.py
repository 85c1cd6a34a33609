"""What the checks of a queue need to know, read by the same queries on any database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rowcall.overview.liveness import Liveness, liveness

Count = tuple[str, int]


class SeenWorker(NamedTuple):
    name: str
    queues: str
    state: Liveness
    silent_seconds: float
    running: int


class Facts(NamedTuple):
    """Times are seconds."""

    workers: Sequence[SeenWorker]
    due: int
    longest_wait: float
    paused: Sequence[tuple[str, str, str | None, float]]
    """Kind, name, by whom, and for how long."""
    kept_slots: Sequence[tuple[str, str, int]]
    """Slots of handlers that still run after their attempts ended: the limit, the worker and the job."""
    ready_by_queue: Sequence[Count]
    ready_by_type: Sequence[tuple[str, int, float]]
    """With the longest wait of each task."""
    mismatched: int
    mismatched_sample: tuple[int, str, str | None, str | None] | None
    """A job whose arguments no worker accepts: its id, task, the worker that refused it, and why."""
    newest_ahead: float
    """How far in the future the newest job was created."""


def read_facts(rows: Callable[[str], list[tuple[Any, ...]]]) -> Facts:
    """`rows` renders a query and runs it."""
    [(due, longest_ms)] = rows(DUE)
    [(mismatched,)] = rows(MISMATCHED_COUNT)
    return Facts(
        workers=[
            SeenWorker(name, queues, liveness(lock_path, silent_ms / 1000, lease_ms / 1000), silent_ms / 1000, running)
            for name, queues, lock_path, lease_ms, silent_ms, running in rows(WORKERS)
        ],
        due=due,
        longest_wait=longest_ms / 1000,
        paused=[(kind, name, actor, ms / 1000) for kind, name, actor, ms in rows(PAUSED)],
        kept_slots=rows(KEPT_SLOTS),
        ready_by_queue=rows(BY_QUEUE),
        ready_by_type=[(name, count, waited_ms / 1000) for name, count, waited_ms in rows(BY_TYPE)],
        mismatched=mismatched,
        mismatched_sample=next(iter(rows(MISMATCHED)), None),
        newest_ahead=max((ms / 1000 for (ms,) in rows(NEWEST)), default=0.0),
    )


WORKERS = """
select name, queues, lock_path, lease_ms, coalesce(<ms:<clock>> - <ms_or_null:beat_at>, 0),
       (select count(*) from <job> where status = <running> and lease_until is null and worker = name)
from <worker> where concurrency > 0 order by name
"""
DUE = """
select (select count(*) from <job> where status = <pending>)
     + (select count(*) from <job> where status = <scheduled> and run_at <= (select <clock>)),
       (select coalesce(<ms:<clock>> - min(<ms_or_null:since>), 0) from (
          select min(<greatest:run_at, created_at>) as since from <job> where status = <pending> and held is null
          union all
          select min(<greatest:run_at, created_at>) from <job>
          where status = <scheduled> and run_at <= (select <clock>)) as due)
"""
_READY = "where status = <pending> and held is null"
BY_QUEUE = f"select queue, count(*) from <job> {_READY} group by queue order by queue"
BY_TYPE = f"""
select type, count(*), coalesce(<ms:<clock>> - <ms_or_null:min(<greatest:run_at, created_at>)>, 0)
from <job> {_READY} group by type order by type
"""
_MISMATCHED = "where status = <pending> and held = 'mismatch'"
MISMATCHED_COUNT = f"select count(*) from <job> {_MISMATCHED}"
MISMATCHED = f"select id, <text_of:type>, worker, error_detail from <job> {_MISMATCHED} order by id limit 1"
PAUSED = """
select kind, name, actor, coalesce(<greatest:0, <ms:<clock>> - <ms_or_null:at>>, 0) from <pause> order by kind, name
"""
KEPT_SLOTS = """
select slot.limit_key, slot.worker, slot.job_id from <slot> as slot join <worker> as worker on worker.name = slot.worker
where not exists (
  select 1 from <job> as job where job.id = slot.job_id and job.lease = slot.lease and job.status = <running>)
order by slot.job_id, slot.limit_key
"""
NEWEST = "select coalesce(<ms_or_null:created_at> - <ms:<clock>>, 0) from <job> order by id desc limit 1"
