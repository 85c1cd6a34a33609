"""Retry, cancel, reschedule and delete jobs, one or many. The timeline says who did it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, Unpack, overload

import msgspec

from rowcall.actions import (
    CANCEL,
    DELETE,
    RESCHEDULE,
    RETRY,
    SET_PRIORITY,
    Action,
    ActionOptions,
    BulkFilter,
    BulkOptions,
    BulkRescheduleOptions,
    BulkRetryOptions,
    JobFilter,
    RescheduleOptions,
    RetryOptions,
)
from rowcall.declare.limits import derived
from rowcall.declare.option_table import (
    ENQUEUE_OPTIONS,
    EditOptions,
    Options,
    attempts_of,
    checked,
    checked_edit,
)
from rowcall.domain.backoff import Backoff, backoff_to_text
from rowcall.domain.encryption import TOKEN, Kind, is_hidden, object_of, outcome_in, with_parts
from rowcall.domain.errors import BlobUnreadable, InvalidOption, refuse_unknown
from rowcall.domain.job import FINISHED, Job, R, Status
from rowcall.domain.payload import payload_from_row
from rowcall.operations import blobs
from rowcall.operations.arguments import (
    checked_actor,
    checked_filter,
    checked_id,
    checked_reason,
    refuse_payload,
)
from rowcall.operations.effects import Blocking, Read, Sleep, joined, read, write
from rowcall.operations.enqueue import Bound, plain_call, with_key
from rowcall.operations.inspect import get_row
from rowcall.operations.retention import LONGEST_COUNTED_SECONDS
from rowcall.queue import Operation, Queue
from rowcall.store.control import single_actions
from rowcall.store.control.bulk_actions import AT_ONCE, MatchedJobs
from rowcall.store.dialect import Dialect, Filter, Order
from rowcall.store.jobs.pages import find
from rowcall.store.new_job import RelatedJob
from rowcall.store.queries.counts import NOW
from rowcall.store.queries.workers import WORKERS
from rowcall.store.statement import Plan

P = ParamSpec("P")
T = TypeVar("T")

HIGHEST_RATE = 1000.0
LOWEST_RATE = 1 / 3600
WORKERS_SECONDS = 1.0
_EDITED_AS_GIVEN = (
    *("queue", "priority", "max_attempts", "timeout_seconds"),
    *("run_at_ms", "delay_ms", "expires_at_ms", "expires_in_ms"),
)

_NO_TIMES = dict.fromkeys(("created_after_ms", "created_before_ms", "finished_after_ms", "finished_before_ms"))


class AnyRetryOptions(BulkRetryOptions, RetryOptions, total=False): ...


def retry(queue: Queue, /, job: Job | int | None = None, **options: Unpack[AnyRetryOptions]) -> Operation[Job | int]:
    """Run a finished job again: with the next attempt number, and its task's `max_attempts` added to its limit.

    Or retry all jobs that fit a filter, failed ones unless `status` says otherwise, and return how many. An
    `error_code` that ends with `*` matches all codes that begin so, `limit` is the highest number of jobs, and
    `rate` is how many become due per second. Jobs that cannot run again, because another one has their key, are
    left out.

        jobs.retry(error_code="TIMEOUT:*", type="send_email", rate=20)

    With `from_step`, it keeps the recorded steps before that one and runs the rest again, also of a job that waits.

        jobs.retry(job, from_step="charge")

    The timeline names the `actor`, else the user of this process. With `connection`, it is part of the caller's
    transaction.
    """
    from_step = options.get("from_step")
    if from_step is not None and job is None:
        raise InvalidOption("from_step", "needs one job: retry(job, from_step=…)")
    if from_step is not None and not isinstance(from_step, str):
        raise InvalidOption("from_step", f"must be the name of a step, got {from_step!r}")
    who, rate, began_ms = checked_actor(options.get("actor")), _checked_rate(options.get("rate")), 0
    if job is None and rate is not None:
        connection = options.get("connection")
        (began_ms,) = yield from read(queue, connection, lambda dialect: dialect.ask(NOW))

    def due_at_ms(number: int) -> int | None:
        return None if rate is None else began_ms + int(number * 1000 / rate)

    retry_some = partial(MatchedJobs.retry, due_at_ms=due_at_ms)
    change = partial(_attempts_of, queue), who
    retry_one = partial(single_actions.retry, from_step=from_step, scrub=queue.declared.failures.scrub)
    return (yield from _act(queue, RETRY, job, options, retry_one, retry_some, *change))


def cancel(
    queue: Queue, /, job: Job | int | None = None, reason: str | None = None, **options: Unpack[BulkOptions]
) -> Operation[Job | int]:
    """Cancel a job: a waiting one at once; a running one is asked to end, which its worker learns within a second.

    An async handler gets `CancelledError`, a sync one sees `ctx.cancelled`. Unless it still succeeds, its
    job is then cancelled. `WrongState` if the job has finished.

    Or cancel all jobs that fit a filter, and return how many were cancelled or asked to end. `all=True` is required
    where every job may match. `actor` and `connection` are those of `retry`.

        jobs.cancel(status="pending", queue="mail", reason="wrong list")
        jobs.cancel(tag="order-7", connection=connection)
    """
    change = checked_reason(reason, queue.declared.failures), checked_actor(options.get("actor"))
    return _act(queue, CANCEL, job, options, single_actions.cancel, MatchedJobs.cancel, *change)


def reschedule(
    queue: Queue, /, job: Job | int | None = None, **options: Unpack[BulkRescheduleOptions]
) -> Operation[Job | int]:
    """Change when a waiting job runs: at `run_at`, or in `delay` seconds. `WrongState` if it does not wait.

    Or change it for all jobs that fit a filter, and return how many. `actor` and `connection` are those of `retry`.

        jobs.reschedule(status="scheduled", error_code="*", delay=0)  # run all retries now
    """
    times = checked({name: options.get(name) for name in ("run_at", "delay")}, ENQUEUE_OPTIONS)
    if times.run_at_ms is None and times.delay_ms is None:
        raise InvalidOption("run_at", "is missing: pass run_at=… or delay=…")
    change = times.run_at_ms, times.delay_ms or 0, checked_actor(options.get("actor"))
    return _act(queue, RESCHEDULE, job, options, single_actions.reschedule, MatchedJobs.reschedule, *change)


def set_priority(
    queue: Queue, /, job: Job | int | None = None, priority: int | None = None, **options: Unpack[BulkOptions]
) -> Operation[Job | int]:
    """Change the priority within its queue; higher runs first. A running job has it from the next attempt on.

    Or change it for all jobs that fit a filter, and return how many have another priority now. `actor` and
    `connection` are those of `retry`.

        jobs.set_priority(priority=10, queue="mail", tag="vip")
    """
    priority = checked({"priority": priority}, ENQUEUE_OPTIONS).priority
    if priority is None:
        raise InvalidOption("priority", "must be a whole number, got None")
    change = priority, checked_actor(options.get("actor"))
    return _act(queue, SET_PRIORITY, job, options, single_actions.set_priority, MatchedJobs.set_priority, *change)


def delete(
    queue: Queue, /, job: Job | int | None = None, *, connection: object = None, **chosen: Unpack[BulkFilter]
) -> Operation[int | None]:
    """Delete a job that is not running, with its history.

    Or delete all jobs that fit a filter, and return how many. Running jobs, jobs that others wait for, and parents
    whose children have not ended, are left out.

        jobs.delete(status=["succeeded", "cancelled"], type="import_row")
    """
    return _act(queue, DELETE, job, {"connection": connection, **chosen}, single_actions.delete, MatchedJobs.delete)


def _act(
    queue: Queue,
    action: Action,
    job: Job | int | None,
    options: Mapping[str, object],
    single_plan: Callable[Concatenate[Dialect, int, P], Plan[T]],
    bulk_plan: Callable[Concatenate[MatchedJobs, P], Plan[int]],
    *change: P.args,
    **named: P.kwargs,
) -> Operation[T | int]:
    """Change a job, or all jobs that fit the filter in the options, some in each transaction."""
    connection = options.get("connection")
    chosen = {name: value for name, value in options.items() if name not in action.parameters}
    if job is None:
        bulk = yield from checked_bulk(queue, connection, action, chosen)
        return (yield from _act_on_all(queue, connection, bulk, lambda batch: bulk_plan(batch, *change, **named)))
    for option, value in chosen.items():
        if value is not None:
            raise InvalidOption(option, "is a filter, and cannot be combined with a job")
    return (yield from write(queue, connection, single_plan, checked_id(job), *change, **named))


def edit(
    queue: Queue,
    /,
    job: Job[R] | int,
    arguments: Mapping[str, object] | None = None,
    *,
    actor: str | None = None,
    connection: object = None,
    **options: Unpack[EditOptions],
) -> Operation[Job[R]]:
    """Change a waiting job: all its arguments, which are checked as in an enqueue, its tags, or its options.

    Options: `queue`, `priority`, `run_at` or `delay`, `max_attempts`, `retry`, `timeout`, `expires_at` or
    `expires_in`, `tags`. `WrongState` if the job runs or has finished.

        jobs.edit(job, {"to": "ann@example.com"}, tags=["vip"], actor="bob")
    """
    changes, who = checked_edit(options), checked_actor(actor)
    names = [name for name, value in options.items() if value is not None]
    if arguments is None and not names:
        raise InvalidOption("edit", "needs something to change: pass arguments or options")
    connection = yield from joined(queue, connection)
    payload = limits = shared = None
    if arguments is not None:
        row = yield from get_row(queue, job, connection)
        yield from Blocking(_refuse_without_key, queue, row)
        call = plain_call(queue, row.type, arguments, Options())
        _refuse_other_key(row, call)
        columns = derived(call.job, payload_from_row(call.payload))
        payload, limits, shared = call.payload, columns.limits, columns[1:] if call.job.shared_by else None
        payload = yield from blobs.store(queue, row.type, payload, Kind.ARGUMENTS)
        names.insert(0, "payload")
    edited = single_actions.Edited(
        names=tuple(names),
        payload=payload,
        limits=limits,
        shared=shared,
        retry=backoff_to_text(changes.retry) if isinstance(changes.retry, Backoff) else None,
        tags=None if changes.tags is None else tuple(dict.fromkeys(changes.tags)),
        **{name: getattr(changes, name) for name in _EDITED_AS_GIVEN},
    )
    make_plan = blobs.safe_on(connection, single_actions.edit, payload)
    return (yield from write(queue, connection, make_plan, checked_id(job), edited, who))


def _refuse_without_key(queue: Queue, job: Job) -> None:
    """Raise `CannotDecrypt` if arguments, or parts of them, are encrypted with a key that this process lacks.

    New ones would be stored readable, or with a key that the workers of the job may not have.
    """
    outcome = outcome_in(job.payload)
    task = job.type if outcome is None else str(outcome["type"])

    def check(part: object, kind: Kind) -> object:
        token = TOKEN.match(part) if isinstance(part, str) else None
        written = msgspec.json.encode(part).decode() if token is None else object_of(token[0])
        if is_hidden(written):
            with contextlib.suppress(BlobUnreadable):  # they are lost: new ones are the cure
                queue.blobs.fetched(written, task, kind)
        return part

    if outcome is None:
        check(job.payload, Kind.ARGUMENTS)
    else:
        with_parts(job.payload, outcome, check)


def _refuse_other_key(job: Job, call: Bound) -> None:
    """Refuse arguments from which the key of the task makes another key than the job's, which cannot be changed."""
    if job.key is None or call.job.key_of is None:
        return
    key = with_key(RelatedJob(job=call.job, payload=call.payload)).job.key
    if key != job.key:
        why = f"these arguments have the key {key!r}, and job {job.id} has {job.key!r}"
        raise InvalidOption("key", f"cannot be changed: {why}; cancel the job, and enqueue another")


def _act_on_all(
    queue: Queue, connection: object, bulk: JobsToChange, act: Callable[[MatchedJobs], Plan[int]]
) -> Operation[int]:
    """Change all jobs that fit a filter, some in each transaction, or all in the caller's; return how many."""

    def act_on_some(dialect: Dialect, jobs: Sequence[Job], changed: int) -> Plan[int]:
        most = None if bulk.limit is None else bulk.limit - changed
        return act(MatchedJobs(dialect, bulk.job_filter, jobs, most, changed))

    connection = yield from joined(queue, connection)
    changed, place = 0, None
    pauses, checked_at = False, -WORKERS_SECONDS
    while True:
        began = queue.clock.timer()
        if connection is None and began - checked_at >= WORKERS_SECONDS:  # a worker may have started
            pauses, checked_at = bool((yield from Read(queue.dialect.ask(WORKERS)))), began
        page = yield from read(queue, connection, find, bulk.job_filter, bulk.order, place, AT_ONCE)
        if page.jobs:
            changed += yield from write(queue, connection, act_on_some, page.jobs, changed)
            if pauses:
                yield from Sleep(min(queue.clock.timer() - began, LONGEST_COUNTED_SECONDS) * queue.database.bulk_pause)
        place = page.place
        if place is None or changed == bulk.limit:
            return changed


class JobsToChange(NamedTuple):
    """The jobs to change, in which order, and how many at most."""

    job_filter: Filter
    order: Order
    limit: int | None


def checked_bulk(
    queue: Queue, connection: object, action: Action, options: Mapping[str, object]
) -> Operation[JobsToChange]:
    """Return the jobs that are meant; raise `InvalidOption` if every job may match, and `all` is not given."""
    possible = action.statuses
    refuse_unknown(options, {*BulkFilter.__annotations__, *(("rate",) if action is RETRY else ())}, "filter")
    job_filter = checked_filter({name: value for name, value in options.items() if name in JobFilter.__annotations__})
    refuse_payload(queue, job_filter)
    impossible = [status for status in job_filter.statuses or () if status not in possible]
    if impossible:
        raise InvalidOption("status", f"must be one of {', '.join(possible)}, got {impossible[0].value!r}")
    limit, everything = options.get("limit"), options.get("all")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidOption("limit", f"must be a whole number above 0, got {limit!r}")
    if everything is not None and not isinstance(everything, bool):
        raise InvalidOption("all", f"must be True or False, got {everything!r}")
    covers = job_filter.statuses is None or set(job_filter.statuses) >= set(possible)
    if covers and not everything and msgspec.structs.replace(job_filter, statuses=None, **_NO_TIMES) == Filter():
        times = {name: value for name in _NO_TIMES if (value := getattr(job_filter, name)) is not None}
        if not times or (yield from read(queue, connection, _exclude_nothing, times, possible)):
            raise InvalidOption(action.name, "this matches every job; add a filter such as queue=…, or pass all=True")
    by_end = job_filter.finished_after_ms is not None or job_filter.finished_before_ms is not None
    # of one error, the jobs that failed first come first; otherwise the later steps of a chain before the first
    is_listed = job_filter.tag or job_filter.key or job_filter.chain_id or job_filter.batch_id or job_filter.parent_id
    first_ended = action is RETRY and job_filter.error_code is not None and not is_listed
    chosen = msgspec.structs.replace(job_filter, statuses=job_filter.statuses or tuple(action.meant or possible))
    return JobsToChange(chosen, Order(newest_first=not first_ended, by_end=by_end or first_ended), limit)


def _exclude_nothing(dialect: Dialect, times: Mapping[str, int], possible: Sequence[Status]) -> Plan[bool]:
    """Return whether every job fits these times, whatever there is: no job is from the future.

    A job that has not finished does not fit a time of its end.
    """
    if any(name.startswith("finished") for name in times) and not set(possible) <= set(FINISHED):
        return False
    (now,) = yield from dialect.ask(NOW)
    return all(name.endswith("before_ms") and at > now for name, at in times.items())


def _attempts_of(queue: Queue, task: str) -> int:
    declared = queue.declared.tasks.get(task)
    given = declared.options if declared is not None else Options()
    return given.max_attempts or attempts_of(
        queue.declared.options.defaults, given.queue or queue.declared.options.default_queue
    )


def _checked_rate(rate: object) -> float | None:
    if rate is None:
        return None
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise InvalidOption("rate", f"must be a number of jobs per second, up to {HIGHEST_RATE:g}, got {rate!r}")
    return rate


# the ways to call the methods: for a job, which they return, and for all jobs that fit a filter, which they count


class RetryMethod(Protocol):
    @overload
    def __call__(self, job: Job[R], **options: Unpack[RetryOptions]) -> Job[R]: ...
    @overload
    def __call__(self, job: int, **options: Unpack[RetryOptions]) -> Job: ...
    @overload
    def __call__(self, **options: Unpack[BulkRetryOptions]) -> int: ...


class AsyncRetryMethod(Protocol):
    @overload
    async def __call__(self, job: Job[R], **options: Unpack[RetryOptions]) -> Job[R]: ...
    @overload
    async def __call__(self, job: int, **options: Unpack[RetryOptions]) -> Job: ...
    @overload
    async def __call__(self, **options: Unpack[BulkRetryOptions]) -> int: ...


RetryMethods = tuple[RetryMethod, AsyncRetryMethod]


class CancelMethod(Protocol):
    @overload
    def __call__(self, job: Job[R], reason: str | None = None, **options: Unpack[ActionOptions]) -> Job[R]: ...
    @overload
    def __call__(self, job: int, reason: str | None = None, **options: Unpack[ActionOptions]) -> Job: ...
    @overload
    def __call__(self, *, reason: str | None = None, **options: Unpack[BulkOptions]) -> int: ...


class AsyncCancelMethod(Protocol):
    @overload
    async def __call__(self, job: Job[R], reason: str | None = None, **options: Unpack[ActionOptions]) -> Job[R]: ...
    @overload
    async def __call__(self, job: int, reason: str | None = None, **options: Unpack[ActionOptions]) -> Job: ...
    @overload
    async def __call__(self, *, reason: str | None = None, **options: Unpack[BulkOptions]) -> int: ...


CancelMethods = tuple[CancelMethod, AsyncCancelMethod]


class RescheduleMethod(Protocol):
    @overload
    def __call__(self, job: Job[R], **options: Unpack[RescheduleOptions]) -> Job[R]: ...
    @overload
    def __call__(self, job: int, **options: Unpack[RescheduleOptions]) -> Job: ...
    @overload
    def __call__(self, **options: Unpack[BulkRescheduleOptions]) -> int: ...


class AsyncRescheduleMethod(Protocol):
    @overload
    async def __call__(self, job: Job[R], **options: Unpack[RescheduleOptions]) -> Job[R]: ...
    @overload
    async def __call__(self, job: int, **options: Unpack[RescheduleOptions]) -> Job: ...
    @overload
    async def __call__(self, **options: Unpack[BulkRescheduleOptions]) -> int: ...


RescheduleMethods = tuple[RescheduleMethod, AsyncRescheduleMethod]


class SetPriorityMethod(Protocol):
    @overload
    def __call__(self, job: Job[R], priority: int, **options: Unpack[ActionOptions]) -> Job[R]: ...
    @overload
    def __call__(self, job: int, priority: int, **options: Unpack[ActionOptions]) -> Job: ...
    @overload
    def __call__(self, *, priority: int, **options: Unpack[BulkOptions]) -> int: ...


class AsyncSetPriorityMethod(Protocol):
    @overload
    async def __call__(self, job: Job[R], priority: int, **options: Unpack[ActionOptions]) -> Job[R]: ...
    @overload
    async def __call__(self, job: int, priority: int, **options: Unpack[ActionOptions]) -> Job: ...
    @overload
    async def __call__(self, *, priority: int, **options: Unpack[BulkOptions]) -> int: ...


SetPriorityMethods = tuple[SetPriorityMethod, AsyncSetPriorityMethod]


class DeleteMethod(Protocol):
    @overload
    def __call__(self, job: Job | int, *, connection: object = None) -> None: ...
    @overload
    def __call__(self, *, connection: object = None, **chosen: Unpack[BulkFilter]) -> int: ...


class AsyncDeleteMethod(Protocol):
    @overload
    async def __call__(self, job: Job | int, *, connection: object = None) -> None: ...
    @overload
    async def __call__(self, *, connection: object = None, **chosen: Unpack[BulkFilter]) -> int: ...


DeleteMethods = tuple[DeleteMethod, AsyncDeleteMethod]
