"""Checks of the queue itself, on any database: its tables, its workers, the jobs that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rowcall.base.effects import drive
from rowcall.base.text import duration
from rowcall.cli.doctor.finding import CheckResult, ok, problem, warn
from rowcall.cli.target import Target
from rowcall.domain.attention import Severity
from rowcall.domain.job import what_is_paused
from rowcall.observe.health import CLOCK_SECONDS
from rowcall.overview.attention.attention_list import find_all, most_urgent_first
from rowcall.overview.formats import counted
from rowcall.overview.liveness import Liveness, liveness
from rowcall.overview.scrub import scrubbed
from rowcall.store.dialect import RESTORE_ADVICE, UNRELEASED, UNRELEASED_ADVICE, Version
from rowcall.store.queries.claims import takes, task_of
from rowcall.store.queries.workers import KNOWN_TASKS
from rowcall.store.statement import Row, Statement

MOST_SHOWN = 5
NOTICEABLE_WAIT_SECONDS = 5.0
CHECKED_HERE = {"long_transaction", "sessions", "read_only"}
"""Codes of `attention` for which the doctor has its own checks, with more details."""


Count = tuple[str, int]
Rows = Callable[[str], list[tuple[Any, ...]]]
"""Renders a query and runs it. Times in the rows are milliseconds."""
Run = Callable[[Statement[object]], list[Row]]


class SeenWorker(NamedTuple):
    name: str
    queues: str
    state: Liveness
    silent_seconds: float
    running: int


def check_queue(rows: Rows, run: Run, target: Target) -> Iterator[CheckResult]:
    workers = [
        SeenWorker(name, queues, liveness(lock_path, silent_ms / 1000, lease_ms / 1000), silent_ms / 1000, running)
        for name, queues, lock_path, lease_ms, silent_ms, running in rows(WORKERS)
    ]
    alive = [worker for worker in workers if worker.state == Liveness.ALIVE]
    yield from _workers(workers, target)
    if alive:
        yield ok("workers", f"{len(alive)} alive")
    yield _due(rows)
    yield from _pauses(rows, target)
    yield from _limits(rows)
    known = drive(target.queue.dialect.ask(KNOWN_TASKS), run)
    names = {worker.name for worker in alive}
    yield from _tasks(rows, target, [one.tasks for one in known if one.worker in names])
    yield from _schedules(rows, target)
    yield from _attention(run, target)


def prefix_hint(others: Sequence[str], target: Target) -> str:
    """Return what to add to the advice if there are only tables with other prefixes."""
    advice = "set its table_prefix if you mean one of them" if target.app else "name the app instead of --url"
    return f"; there are tables with the prefix {', '.join(others)}: {advice}" if others else ""


def _capitalized(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def check_version(
    version: Version, newest: int, prefix: str, target: Target, *, where: str = "", hint: str = ""
) -> CheckResult:
    """`where` says where the tables are; `hint` is added to the advice if there are none."""
    number = version.found
    if number == 0:
        advice = f"Create them with: {target.command('migrate')}{hint}"
        return problem("tables", f"there are no tables named {prefix}*", advice)
    if not version.released:
        return problem("tables", f"{UNRELEASED} (version {number})", _capitalized(UNRELEASED_ADVICE))
    if number < newest:
        what = f"version {number}, but this code needs {newest}"
        return problem("tables", what, f"Update them with: {target.command('migrate')}")
    if version.oldest > newest:
        what = f"version {number} is newer than this code, which supports {newest}"
        return problem("tables", what, "Install the newer Rowcall here")
    summary = f"version {number}{where}"
    if version.missing:
        what = f"{summary}, but {', '.join(version.missing)} {'is' if len(version.missing) == 1 else 'are'} missing"
        return problem("tables", what, _capitalized(RESTORE_ADVICE))
    return ok("tables", summary if number == newest else f"{summary}, newer than this code ({newest}) but compatible")


def check_clocks(there: float, asked_at: float, answered_at: float) -> CheckResult:
    """Compare a server's time with this machine's, right before and after it was asked.

    The server's clock decides when jobs are due; this machine's is used in logs, and in a run_at of an app.
    """
    unsure = (answered_at - asked_at) / 2
    ahead = there - (asked_at + answered_at) / 2
    if abs(ahead) - unsure < CLOCK_SECONDS:
        return ok("clock", f"the server's and this machine's agree within {duration(max(0.001, abs(ahead) + unsure))}")
    what = f"the server's clock is {duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this machine's"
    advice = "Run NTP on both: jobs are due by the server's clock, so a run_at from this machine's clock is off"
    return warn("clock", what, advice)


def _workers(workers: Sequence[SeenWorker], target: Target) -> Iterator[CheckResult]:
    for worker in workers:
        held = counted(worker.running, "job")
        if worker.state == Liveness.GONE:
            advice = f"Any worker on this machine recovers them within 2 s: {target.work_command}"
            yield warn("workers", f"{worker.name} died while it held {held}", advice)
        elif worker.state == Liveness.SILENT:
            what = f"{worker.name} sent its last heartbeat {duration(worker.silent_seconds)} ago, and holds {held}"
            yield warn("workers", what, "If it hangs, kill it; any worker recovers its jobs when its lease is over")


def _attention(run: Run, target: Target) -> Iterator[CheckResult]:
    """Look at what the database knows. The doctor's own checks of the file and the server see more than `attention`."""
    found = drive(find_all(target.queue), run)
    findings = [one for one in most_urgent_first(found) if one.code not in CHECKED_HERE]
    for one in (scrubbed(target.queue.declared.failures, finding) for finding in findings):
        make = problem if one.severity is Severity.CRITICAL else warn
        yield make(one.code, one.message, target.typed(one.advice))
    if not findings:
        yield ok("attention", "nothing needs attention")


def _due(rows: Rows) -> CheckResult:
    [(due, longest_ms)] = rows(DUE)
    if not due:
        return ok("waiting", "no due jobs are waiting")
    longest = duration(longest_ms / 1000)
    if due == 1:
        return ok("waiting", f"1 due job has been waiting for {longest}")
    return ok("waiting", f"{due:,} due jobs are waiting, the first for {longest}")


def _pauses(rows: Rows, target: Target) -> Iterator[CheckResult]:
    """Name the pauses. They need attention only if jobs wait for their end."""
    for kind, name, actor, paused_ms in rows(PAUSED)[:MOST_SHOWN]:
        what = f"{what_is_paused(kind, name)} was paused by {actor or 'someone'} {duration(paused_ms / 1000)} ago"
        resume = target.command("resume", *(["--task"] if kind == "task" else []), name)
        yield ok("pauses", f"{what}; to resume it: {resume}")


def _limits(rows: Rows) -> Iterator[CheckResult]:
    """Find the slots of handlers that still run after their attempts ended."""
    for limit, worker, job_id in rows(KEPT_SLOTS)[:MOST_SHOWN]:
        yield warn(
            "limits",
            f"the handler of job {job_id} still runs in {worker} after its attempt ended, and keeps a slot of {limit}",
            "The slot comes free when the handler ends, or its process;"
            ' with isolation="process" a timeout ends the handler',
        )


def _tasks(rows: Rows, target: Target, known: Sequence[Mapping[str, str] | None]) -> Iterator[CheckResult]:
    """Find jobs whose task neither the app declares nor a worker knows: another app may run them."""
    unknown: Counter[str] = Counter()
    for key, count, waited_ms in rows(BY_TYPE):
        is_known = task_of(key) in target.queue.declared.tasks or any(takes(tasks, task_of(key)) for tasks in known)
        if not is_known and waited_ms > NOTICEABLE_WAIT_SECONDS * 1000:
            unknown[task_of(key)] += count
    if target.app is not None and unknown:
        what = f"{target.app} declares no task for {_listed([*unknown.items()])}"
        yield warn("tasks", what, "Declare the tasks or delete the jobs, unless workers of another app run them")


def _schedules(rows: Rows, target: Target) -> Iterator[CheckResult]:
    gone = [(name, task) for name, task in rows(DECLARED) if name not in target.queue.declared.schedules]
    for name, task in gone[:MOST_SHOWN] if target.app is not None and target.queue.declared.tasks else ():
        what = f"{target.app} no longer declares schedule {name}, which still enqueues {task}"
        remove = target.command("schedules", "--remove", name)
        yield warn("schedules", what, f"Remove it, unless another app declares it: {remove}")


def _listed(counts: Sequence[Count]) -> str:
    said = ", ".join(f"{name} ({count:,} waiting)" for name, count in counts[:MOST_SHOWN])
    return said if len(counts) <= MOST_SHOWN else f"{said} and {len(counts) - MOST_SHOWN} more"


WORKERS = """
select name, queues, lock_path, lease_ms, coalesce(<ms:<clock>> - <ms_or_null:heartbeat_at>, 0),
       (select count(*) from <claim> where lease_until is null and worker = name)
from <worker> where concurrency > 0 order by name
"""
DUE = """
select cast(sum(jobs) as bigint), coalesce(<ms:<clock>> - min(<ms_or_null:since>), 0) from (
  select count(*) as jobs, min(since) as since from <ready>
  union all
  select count(*), min(<greatest:run_at, created_at>) from <job>
  where status = <scheduled> and run_at <= (select <clock>)
  union all
  select count(*), null from <job> where status = <pending> and held is not null) as due
"""
BY_TYPE = """
select type, count(*), coalesce(<ms:<clock>> - <ms_or_null:min(since)>, 0) from <ready> group by type order by type
"""
DECLARED = "select name, task from <schedule> where declared <> 0 and paused = 0 order by name"
PAUSED = """
select kind, name, actor, coalesce(<greatest:0, <ms:<clock>> - <ms_or_null:at>>, 0) from <pause> order by kind, name
"""
KEPT_SLOTS = """
select slot.limit_key, slot.worker, slot.job_id from <slot> as slot join <worker> as worker on worker.name = slot.worker
where not exists (select 1 from <claim> as claim where claim.job_id = slot.job_id and claim.lease = slot.lease)
order by slot.job_id, slot.limit_key
"""
