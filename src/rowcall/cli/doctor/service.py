"""What is said of the queue itself, whichever database it lies in: its tables, who works on it, what waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rowcall.cli.doctor.finding import Finding, ok, problem, warn
from rowcall.cli.present.output import span
from rowcall.cli.target import command_for, work_command_for
from rowcall.domain.job import what_is_paused
from rowcall.observe.health import LONG_WAIT_SECONDS
from rowcall.overview.formats import counted
from rowcall.overview.liveness import Liveness
from rowcall.store.dialect import RESTORE_ADVICE, Version

MOST_SHOWN = 5
NOTICEABLE_WAIT_SECONDS = 5.0
FUTURE_SECONDS = 5.0

Count = tuple[str, int]


class Asked(NamedTuple):
    """The app or the URL that was given, if one was, and the tasks it declares."""

    app: str | None
    url: str | None
    tasks: frozenset[str]

    @property
    def work_command(self) -> str:
        return work_command_for(self.app)

    def command(self, name: str, *words: str) -> str:
        return command_for(name, self.app, self.url, *words)

    def prefix_hint(self, others: Sequence[str]) -> str:
        """What is said where there are only tables of other prefixes."""
        advice = "set its table_prefix if one of them is meant" if self.app else "name the app instead of --url"
        return f"; there are tables of the prefix {', '.join(others)}: {advice}" if others else ""


class SeenWorker(NamedTuple):
    name: str
    queues: str
    state: Liveness
    silent_seconds: float
    running: int


def check_version(
    version: Version, newest: int, prefix: str, asked: Asked, *, where: str = "", hint: str = ""
) -> Finding:
    """`where` is added to what is said of tables that are there, `hint` to the advice where there are none."""
    found = version.found
    if found == 0:
        advice = f"Make them with: {asked.command('migrate')}{hint}"
        return problem("tables", f"there are no tables named {prefix}*", advice)
    if found < newest:
        what = f"version {found}, and this code needs {newest}"
        return problem("tables", what, f"Bring them up to date with: {asked.command('migrate')}")
    if version.oldest > newest:
        what = f"version {found} is newer than this code, which knows {newest}"
        return problem("tables", what, "Install the newer Rowcall here")
    said = f"version {found}{where}"
    if version.missing:
        what = f"{said}, but {', '.join(version.missing)} {'is' if len(version.missing) == 1 else 'are'} missing"
        return problem("tables", what, RESTORE_ADVICE[0].upper() + RESTORE_ADVICE[1:])
    return ok("tables", said if found == newest else f"{said}, newer than this code ({newest}) and fit for it")


def check_workers(workers: Sequence[SeenWorker], asked: Asked) -> Iterator[Finding]:
    for worker in workers:
        if worker.state == Liveness.GONE:
            what = f"{worker.name} has died, with {counted(worker.running, 'job')}"
            yield warn(
                "workers", what, f"Any living worker on this machine gives them back within 2 s: {asked.work_command}"
            )
        elif worker.state == Liveness.SILENT:
            running = counted(worker.running, "job")
            what = f"{worker.name} was last heard of {span(worker.silent_seconds)} ago, with {running}"
            yield warn("workers", what, "If it hangs, end it; any living worker gives its jobs back after its lease")
    living = len(alive(workers))
    if living:
        yield ok("workers", f"{living} alive")


def alive(workers: Sequence[SeenWorker]) -> list[SeenWorker]:
    return [worker for worker in workers if worker.state == Liveness.ALIVE]


def check_waiting(waiting: int, longest_seconds: float, worked_on: bool, asked: Asked) -> Finding:
    if not waiting:
        return ok("waiting", "no job that is due waits")
    longest = span(longest_seconds)
    said = f"{waiting:,} jobs that are due wait, the first for {longest}"
    if waiting == 1:
        said = f"1 job that is due waits, for {longest}"
    if not worked_on:
        return warn("waiting", f"{said}, and no worker is alive", f"Start one: {asked.work_command}")
    if longest_seconds > LONG_WAIT_SECONDS:
        return warn(
            "waiting", said, "Add workers or concurrency, or see whether their workers know these tasks and queues"
        )
    return ok("waiting", said)


def check_queues(ready: Sequence[Count], living: Sequence[SeenWorker]) -> Iterator[Finding]:
    """Queues in which jobs wait, and which no living worker looks at; where none lives, that is said already."""
    unserved = [(queue, count) for queue, count in ready if not any(_serves(worker, queue) for worker in living)]
    if living and unserved:
        served = ", ".join(sorted({worker.queues for worker in living}))
        yield warn(
            "queues",
            f"no living worker serves {_listed(unserved)}; the living ones serve {served}",
            "Start a worker for them, or correct the --queues of those that run",
        )


def check_pauses(paused: Sequence[tuple[str, str, str | None, float]], asked: Asked) -> Iterator[Finding]:
    """Queues and tasks of which nothing is started; each with who paused it, and how long ago."""
    for kind, name, actor, seconds in paused[:MOST_SHOWN]:
        what = f"{what_is_paused(kind, name)} is paused, by {actor or 'somebody'}, for {span(seconds)}"
        again = asked.command("resume", *(["--task"] if kind == "task" else []), name)
        yield warn("pauses", what, f"Nothing to do if that is meant; otherwise: {again}")


def check_limits(kept: Sequence[tuple[str, str, int]]) -> Iterator[Finding]:
    """Slots under limits of handlers that still run after their attempts ended: the key, the worker and the job."""
    for key, worker, job_id in kept[:MOST_SHOWN]:
        yield warn(
            "limits",
            f"the handler of job {job_id} still runs in {worker} after its attempt ended, and keeps a slot of {key}",
            "The slot comes free when the handler ends, or when you restart that worker;"
            ' with isolation="process" a timeout ends the handler',
        )


def _serves(worker: SeenWorker, queue: str) -> bool:
    if worker.queues == "*" or queue in (part.partition("=")[0] for part in worker.queues.split(",")):
        return True
    # given by a mapping, a name may have what separates names: then it cannot be told apart for sure
    return ("," in queue or "=" in queue) and queue in worker.queues


def check_tasks(ready: Sequence[tuple[str, int, float]], asked: Asked) -> Iterator[Finding]:
    """Jobs that wait because the app that was named has no function for them; each type with its longest wait."""
    unknown = [
        (kind, count)
        for kind, count, waited_seconds in ready
        if kind not in asked.tasks and waited_seconds > NOTICEABLE_WAIT_SECONDS
    ]
    if asked.app is not None and unknown:
        yield warn(
            "tasks",
            f"{asked.app} declares no task for {_listed(unknown)}",
            "Nothing to do if workers of another app run them; otherwise declare the tasks, or delete the jobs",
        )


def check_mismatched(waiting: int, sample: tuple[int, str, str | None, str | None] | None) -> Iterator[Finding]:
    """Jobs that wait for a worker that their arguments fit, and one of them: its id, task, who refused it, and why."""
    if sample is not None:
        job_id, kind, worker, detail = sample
        wait = "1 job waits" if waiting == 1 else f"{waiting:,} jobs wait"
        yield warn(
            "versions",
            f"{wait} for a worker that the arguments fit; job {job_id} ({kind}) was refused by {worker}: {detail}",
            "Start workers with the code that enqueued them; after mismatch_grace (10 minutes by default) they fail",
        )


def _listed(counts: Sequence[Count]) -> str:
    said = ", ".join(f"{name} ({count:,} waiting)" for name, count in counts[:MOST_SHOWN])
    return said if len(counts) <= MOST_SHOWN else f"{said} and {len(counts) - MOST_SHOWN} more"


def check_future(ahead_seconds: float) -> Finding:
    """Rows from the future were written by a clock that was wrong, or this one is."""
    if ahead_seconds < FUTURE_SECONDS:
        return ok("clock of the rows", "no job comes from the future")
    what = f"a job was created {span(ahead_seconds)} in the future"
    return warn("clock of the rows", what, "The clock was set back, or another host's is ahead: run NTP on all of them")
