"""The columns of a job, and the one builder of `Job`. Databases return times in milliseconds and JSON as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from rowcall.base.times import time_of
from rowcall.domain.encryption import TOKEN_PREFIX, Kind
from rowcall.domain.job import Job, Status
from rowcall.domain.payload import payload_from_row, tags_from_row, value_from_row
from rowcall.store.statement import Row

T = TypeVar("T")

_COLUMNS = (
    "id, type, queue, payload, status, priority, attempt, max_attempts, run_at, created_at, claimed_at, started_at,"
    " finished_at, worker, heartbeat_at, progress, progress_message, result, error_code, error_detail, key, tags,"
    " chain_id, chain_index, expires_at, timeout, retry, target, lease, holder, batch_id,"
    " deadline_at, parent_id"
)
_JSON = ("payload", "result", "tags")
_OF_STEPS = ("STEP_FINISHED", "STEP_FAILED", "WAITING", "SIGNAL_RECEIVED", "WAIT_TIMED_OUT")


def job_columns(time: Callable[[str], str], json: Callable[[str], str]) -> str:
    """Return the columns of the view of jobs, called `job`, in the order that `job_from_row` expects."""
    return ", ".join(
        time(f"job.{name}") if name.endswith("_at") else json(f"job.{name}") if name in _JSON else f"job.{name}"
        for name in _COLUMNS.split(", ")
    )


def job_from_row(row: Row) -> Job:
    (
        job_id, kind, queue, payload, status, priority, attempt, max_attempts, run_at, created_at, claimed_at,
        started_at, finished_at, worker, heartbeat_at, progress, progress_message, result, error_code, error_detail,
        key, tags, chain_id, chain_index, expires_at, timeout, retry, target, lease, holder, batch_id,
        deadline_at, parent_id,
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
        claimed_at=time(claimed_at),
        started_at=time(started_at),
        finished_at=time(finished_at),
        worker=text(worker),
        heartbeat_at=time(heartbeat_at),
        progress=progress if isinstance(progress, float) else None,
        progress_message=text(progress_message),
        result=value_from_row(text(result)),
        error_code=text(error_code),
        error_detail=text(error_detail),
        key=cast("str | None", key),
        tags=tags_from_row(cast("str | None", tags)),
        chain_id=cast("int | None", chain_id),
        chain_index=cast("int | None", chain_index),
        expires_at=time(expires_at),
        timeout=cast("float | None", timeout),
        retry=cast("str | None", retry),
        target=cast("str | None", target),
        lease=cast("int", lease),
        holder=cast("int | None", holder) or 0,
        batch_id=cast("int | None", batch_id),
        deadline_at=time(deadline_at),
        parent_id=cast("int | None", parent_id),
    )


# In columns that only workers write, SQLite keeps whatever plain SQL put there: each claim would pay for a check.


def milliseconds(value: object) -> int | None:
    """A time in a column that is not checked; what is not a time is not shown."""
    return value if isinstance(value, int) else None


def time(value: object) -> datetime | None:
    return time_of(value) if isinstance(value, int) else None


def text(value: object) -> str | None:
    """A text in a column that is not checked."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def struct_from_row(
    struct: Callable[..., T], names: Sequence[str], makers: Mapping[str, Callable[[Any], object]]
) -> Callable[[Row], T]:
    """Return the maker of a struct whose fields are the columns, in this order; `makers` convert some of them."""
    return lambda row: struct(
        **{name: makers[name](value) if name in makers else value for name, value in zip(names, row, strict=True)}
    )


def secret_of(event: object, secret: object) -> dict[str, str]:
    """Return the fields of a line of a timeline that ends with an encrypted text."""
    token = text(secret)
    if token is None or not token.startswith(TOKEN_PREFIX):
        return {}
    kind = Kind.PROGRESS if event == "PROGRESS" else Kind.STEP_ERROR if event in _OF_STEPS else Kind.ERROR
    return {"secret": token, "secret_kind": kind}
