"""Checks of the queue itself, on any database: its tables, its workers, the jobs that wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowcall.base.text import span
from rowcall.cli.doctor.finding import Finding, ok, problem, warn
from rowcall.cli.doctor.queue_facts import Count, Facts, SeenWorker
from rowcall.cli.target import Target
from rowcall.domain.job import what_is_paused
from rowcall.observe.health import LONG_WAIT_SECONDS
from rowcall.overview.formats import counted
from rowcall.overview.liveness import Liveness
from rowcall.store.dialect import RESTORE_ADVICE, Version

MOST_SHOWN = 5
NOTICEABLE_WAIT_SECONDS = 5.0
FUTURE_SECONDS = 5.0


def check_queue(facts: Facts, target: Target) -> Iterator[Finding]:
    alive = [worker for worker in facts.workers if worker.state == Liveness.ALIVE]
    yield from _workers(facts.workers, target)
    if alive:
        yield ok("workers", f"{len(alive)} alive")
    yield _due(facts, bool(alive), target)
    yield from _pauses(facts, target)
    yield from _limits(facts)
    yield from _queues(facts.ready_by_queue, alive)
    yield from _tasks(facts.ready_by_type, target)
    yield from _versions(facts)
    yield _future(facts.newest_ahead)


def prefix_hint(others: Sequence[str], target: Target) -> str:
    """Return what to add to the advice if there are only tables with other prefixes."""
    advice = "set its table_prefix if you mean one of them" if target.app else "name the app instead of --url"
    return f"; there are tables with the prefix {', '.join(others)}: {advice}" if others else ""


def check_version(
    version: Version, newest: int, prefix: str, target: Target, *, where: str = "", hint: str = ""
) -> Finding:
    """`where` says where the tables are; `hint` is added to the advice if there are none."""
    found = version.found
    if found == 0:
        advice = f"Create them with: {target.command('migrate')}{hint}"
        return problem("tables", f"there are no tables named {prefix}*", advice)
    if found < newest:
        what = f"version {found}, but this code needs {newest}"
        return problem("tables", what, f"Update them with: {target.command('migrate')}")
    if version.oldest > newest:
        what = f"version {found} is newer than this code, which supports {newest}"
        return problem("tables", what, "Install the newer Rowcall here")
    said = f"version {found}{where}"
    if version.missing:
        what = f"{said}, but {', '.join(version.missing)} {'is' if len(version.missing) == 1 else 'are'} missing"
        return problem("tables", what, RESTORE_ADVICE[0].upper() + RESTORE_ADVICE[1:])
    return ok("tables", said if found == newest else f"{said}, newer than this code ({newest}) but compatible")


def _workers(workers: Sequence[SeenWorker], target: Target) -> Iterator[Finding]:
    for worker in workers:
        held = counted(worker.running, "job")
        if worker.state == Liveness.GONE:
            advice = f"Any worker on this machine recovers them within 2 s: {target.work_command}"
            yield warn("workers", f"{worker.name} died while it held {held}", advice)
        elif worker.state == Liveness.SILENT:
            what = f"{worker.name} sent its last heartbeat {span(worker.silent_seconds)} ago, and holds {held}"
            yield warn("workers", what, "If it hangs, kill it; any worker recovers its jobs when its lease is over")


def _due(facts: Facts, any_alive: bool, target: Target) -> Finding:
    if not facts.due:
        return ok("waiting", "no due jobs are waiting")
    longest = span(facts.longest_wait)
    said = f"{facts.due:,} due jobs are waiting, the first for {longest}"
    if facts.due == 1:
        said = f"1 due job has been waiting for {longest}"
    if not any_alive:
        return warn("waiting", f"{said}, and no worker is alive", f"Start one: {target.work_command}")
    if facts.longest_wait > LONG_WAIT_SECONDS:
        advice = "Add workers or concurrency, and check that the workers serve these queues and tasks"
        return warn("waiting", said, advice)
    return ok("waiting", said)


def _queues(ready: Sequence[Count], alive: Sequence[SeenWorker]) -> Iterator[Finding]:
    unserved = [(queue, count) for queue, count in ready if not any(_serves(worker, queue) for worker in alive)]
    if alive and unserved:
        served = ", ".join(sorted({worker.queues for worker in alive}))
        yield warn(
            "queues",
            f"no worker serves {_listed(unserved)}; the workers serve {served}",
            "Start a worker for these queues, or add them to --queues of a running one",
        )


def _serves(worker: SeenWorker, queue: str) -> bool:
    if worker.queues == "*" or queue in (part.partition("=")[0] for part in worker.queues.split(",")):
        return True
    # a name with a comma or = in it (given by a mapping) cannot be told apart for sure
    return ("," in queue or "=" in queue) and queue in worker.queues


def _pauses(facts: Facts, target: Target) -> Iterator[Finding]:
    for kind, name, actor, seconds in facts.paused[:MOST_SHOWN]:
        what = f"{what_is_paused(kind, name)} was paused by {actor or 'someone'} {span(seconds)} ago"
        resume = target.command("resume", *(["--task"] if kind == "task" else []), name)
        yield warn("pauses", what, f"Resume it, unless this is intended: {resume}")


def _limits(facts: Facts) -> Iterator[Finding]:
    for limit, worker, job_id in facts.kept_slots[:MOST_SHOWN]:
        yield warn(
            "limits",
            f"the handler of job {job_id} still runs in {worker} after its attempt ended, and keeps a slot of {limit}",
            "The slot comes free when the handler ends, or when you restart that worker;"
            ' with isolation="process" a timeout ends the handler',
        )


def _tasks(ready: Sequence[tuple[str, int, float]], target: Target) -> Iterator[Finding]:
    unknown = [
        (name, count)
        for name, count, waited_seconds in ready
        if name not in target.queue.tasks and waited_seconds > NOTICEABLE_WAIT_SECONDS
    ]
    if target.app is not None and unknown:
        yield warn(
            "tasks",
            f"{target.app} declares no task for {_listed(unknown)}",
            "Declare the tasks or delete the jobs, unless workers of another app run them",
        )


def _versions(facts: Facts) -> Iterator[Finding]:
    if facts.mismatched_sample is not None:
        job_id, name, worker, detail = facts.mismatched_sample
        wait = "1 job waits" if facts.mismatched == 1 else f"{facts.mismatched:,} jobs wait"
        yield warn(
            "versions",
            f"{wait} for a worker that accepts the arguments; {worker} refused job {job_id} ({name}): {detail}",
            "Start workers with the code that enqueued them; after mismatch_grace (10 minutes by default) they fail",
        )


def _listed(counts: Sequence[Count]) -> str:
    said = ", ".join(f"{name} ({count:,} waiting)" for name, count in counts[:MOST_SHOWN])
    return said if len(counts) <= MOST_SHOWN else f"{said} and {len(counts) - MOST_SHOWN} more"


def _future(ahead_seconds: float) -> Finding:
    if ahead_seconds < FUTURE_SECONDS:
        return ok("clock of the rows", "no job was created in the future")
    what = f"a job was created {span(ahead_seconds)} in the future"
    return warn("clock of the rows", what, "A clock was set back, or another host's is ahead: run NTP on all hosts")
