"""A storm of all actions at once, with a witness outside of the queue.

python -m tests.crash.all_actions sqlite --jobs 200000
python -m tests.crash.all_actions postgres --jobs 200000
python -m tests.crash.all_actions mysql --jobs 200000

Workers run the jobs and are killed all the time. Another process cancels, retries, edits, prioritizes, reschedules,
deletes, pauses, acts in bulk, claims by hand and writes plain SQL. Each handler first writes its job and its attempt to
a file of its process. When all is calm, the tables are compared with these files: nothing is lost, no attempt has run
twice, no job waits without a row that lets it run, no row is left over, and the counts are those of the rows.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Literal, NamedTuple

from rowcall import Backoff, Context, JobNotFound, LeaseLost, Limit, Rowcall, RowcallError
from rowcall.task import ContextTask
from rowcall.testing.mysql import MysqlServer
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.process import PythonProcess
from tests.crash.storm import leftovers
from tests.observe.plain_sql import PlainDatabase, plain_database

WORKERS = 3
KILL_EVERY_SECONDS = 1.2
JOBS_PER_PORTION = 5000
FEWEST_PORTIONS = 4
FEWEST_SECONDS = 4.0
SLOW_SHARE, SLOW_SECONDS = 20, 0.05  # so that there are running jobs to act on
AGAIN = Backoff.constant(0.1)
RECORD = struct.Struct("<QI")
UNFINISHED = "select count(*) from rowcall_job where status in ('pending', 'scheduled', 'running', 'blocked')"
FORGOTTEN = """
    select id from rowcall_job where status = 'pending' and held is null
      and id not in (select id from rowcall_ready) and id not in (select job_id from rowcall_claim)"""


class Declared(NamedTuple):
    jobs: Rowcall
    note: ContextTask[[], None]
    once: ContextTask[[], None]


def declared(url: str, folder: Path) -> Declared:
    """Return the queue, and its tasks, which write what they do to a file of this process."""
    jobs = Rowcall(url)
    witness = os.open(folder / f"began-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    @jobs.task(max_attempts=50, retry=AGAIN, tags=["storm"])
    def note(ctx: Context) -> None:
        os.write(witness, RECORD.pack(ctx.job.id, ctx.job.attempt))
        if ctx.job.id % SLOW_SHARE == 0:
            threading.Event().wait(SLOW_SECONDS)

    @jobs.task(max_attempts=1, retry=AGAIN, limit=Limit("few", concurrency=20))
    def once(ctx: Context) -> None:
        os.write(witness, RECORD.pack(ctx.job.id, ctx.job.attempt))

    return Declared(jobs, note, once)


def work(url: str, folder: Path) -> None:
    declared(url, folder).jobs.work(concurrency=20)


class Steerer:
    """Does everything that people can do, at random. Refusals are part of it."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self._jobs = declared(url, folder).jobs
        self._database = plain_database(url)
        self._chance = random.Random(seed)
        self._deleted = open(folder / "deleted", "a", encoding="ascii", buffering=1)  # noqa: SIM115
        self.done: Counter[str] = Counter()
        self._known: list[int] = []

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        actions: list[Callable[[int], object]] = [
            *(self._cancel, self._retry, self._edit, self._prioritize, self._reschedule, self._delete, self._pause),
            *(self._bulk, self._by_hand, self._plain_sql),
        ]
        while time.monotonic() < until:
            action = self._chance.choice(actions)
            with contextlib.suppress(RowcallError):
                action(self._any())
                self.done[action.__name__.strip("_")] += 1
        print(dict(self.done), flush=True)

    def _any(self) -> int:
        """Return a job that was in some state a moment ago. To list jobs takes longer than to act on one."""
        if not self._known:
            status = self._chance.choice(("pending", "running", "scheduled", "succeeded", "failed", "cancelled"))
            order: Literal["newest", "oldest"] = self._chance.choice(("newest", "oldest"))
            self._known = [job.id for job in self._jobs.list(status=status, order=order, limit=25).jobs]
            self._chance.shuffle(self._known)
        if not self._known:
            raise JobNotFound(0)
        return self._known.pop()

    def _cancel(self, job_id: int) -> None:
        self._jobs.cancel(job_id, "storm")

    def _retry(self, job_id: int) -> None:
        self._jobs.retry(job_id)

    def _edit(self, job_id: int) -> None:
        self._jobs.edit(job_id, priority=self._chance.randint(-3, 3))

    def _prioritize(self, job_id: int) -> None:
        self._jobs.set_priority(job_id, self._chance.randint(-3, 3))

    def _reschedule(self, job_id: int) -> None:
        self._jobs.reschedule(job_id, delay=self._chance.random() / 10)

    def _delete(self, job_id: int) -> None:
        self._deleted.write(f"{job_id}\n")  # before: the process may be gone after it
        self._jobs.delete(job_id)

    def _pause(self, job_id: int) -> None:
        self._jobs.pause("default")
        self._jobs.resume("default")

    def _bulk(self, job_id: int) -> None:
        kind = self._chance.choice(("note", "once"))
        match self._chance.randrange(3):
            case 0:
                self._jobs.cancel(type=kind, status=self._chance.choice(("pending", "running")), limit=20)
            case 1:
                self._jobs.retry(type=kind, status=self._chance.choice(("failed", "cancelled")), limit=20)
            case _:
                self._jobs.set_priority(priority=self._chance.randint(-3, 3), type=kind, status="pending", limit=20)

    def _by_hand(self, job_id: int) -> None:
        for job in self._jobs.claim("hand", limit=5, lease=2):
            with contextlib.suppress(LeaseLost):
                match self._chance.randrange(4):
                    case 0:
                        self._jobs.release(job)
                    case 1:
                        self._jobs.fail(job, "STORM:BY_HAND")
                    case 2:
                        self._jobs.heartbeat(job)  # and its lease runs out
                    case _:
                        self._jobs.complete(job)

    def _plain_sql(self, job_id: int) -> None:
        changes = ("priority = priority + 1", "run_at = run_at", "queue = queue", "max_attempts = max_attempts + 1")
        self._database.ask(f"update rowcall_job set {self._chance.choice(changes)} where id = {job_id}")


def steer(url: str, folder: Path, seed: int, seconds: float) -> None:
    Steerer(url, folder, seed).run(seconds)


def storm(url: str, folder: Path, count: int, seed: int) -> list[str]:
    """Return what is wrong after it."""
    began = time.monotonic()
    tasks = declared(url, folder)
    with tasks.jobs as jobs, closing(plain_database(url)) as database:
        jobs.migrate()
        portions = max(FEWEST_PORTIONS, count // JOBS_PER_PORTION)
        size = count // portions // 4
        kills, actions = rage(tasks, url, folder, portions, size, seed)
        jobs.resume("default")
        for _ in range(100):
            jobs.drain()
            if not left(database):
                break
            time.sleep(0.3)  # noqa: TID251  # retries and leases of claims by hand
        problems = [*checked(database, folder, portions * size * 4), *leftovers.wrong_answers(jobs, database)]
    took = time.monotonic() - began
    print(f"{count} jobs, {kills} kills, {len(problems)} problems in {took:.0f} s; actions: {actions}", flush=True)
    return problems


def rage(tasks: Declared, url: str, folder: Path, portions: int, size: int, seed: int) -> tuple[int, str]:
    """Enqueue, kill and steer. Return the number of kills, and what was done how often."""
    chance, kills = random.Random(seed), 0
    seconds = max(FEWEST_SECONDS, portions * size * 4 / 2500)

    def start(*what: str) -> PythonProcess:
        return PythonProcess("-m", "tests.crash.all_actions", *what, cwd=str(Path(__file__).parents[2]))

    with ExitStack() as processes:
        workers = [processes.enter_context(start("work", url, str(folder))) for _ in range(WORKERS)]
        steerer = processes.enter_context(start("steer", url, str(folder), str(seed), str(seconds)))
        while portions or steerer.alive:
            for task in (tasks.note, tasks.note, tasks.note, tasks.once) if portions else ():
                task.enqueue_many([{}] * size)
            portions = max(0, portions - 1)
            time.sleep(KILL_EVERY_SECONDS * (0.5 + chance.random()))  # noqa: TID251
            victim = chance.randrange(WORKERS)
            workers[victim].close()
            workers[victim] = processes.enter_context(start("work", url, str(folder)))
            kills += 1
        assert steerer.wait() == 0, steerer.output
        for worker in workers:
            worker.send(signal.SIGTERM)
            worker.wait()
        return kills, steerer.output.strip().splitlines()[-1]


def left(database: PlainDatabase) -> int:
    return int(database.ask(UNFINISHED)[0][0])


def checked(database: PlainDatabase, folder: Path, count: int) -> Iterator[str]:
    if forgotten := database.ask(FORGOTTEN):
        yield f"{len(forgotten)} pending jobs without a ready or a claim row: {forgotten[:5]}"
    yield from leftovers.rows_left(database)
    there = {
        int(row[0]): (str(row[1]), int(row[2])) for row in database.ask("select id, status, attempt from rowcall_job")
    }
    deleted = set(map(int, (folder / "deleted").read_text().split())) if (folder / "deleted").exists() else set()
    if (lost := count - len(there.keys() | deleted)) != 0:
        yield f"{lost} jobs are lost: {len(there)} are there, and {len(deleted)} were deleted"
    records: Counter[tuple[int, int]] = Counter()
    for path in folder.glob("began-*"):
        data = path.read_bytes()
        records.update(RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]))
    # a retry by a person and a release continue with numbers of attempts that rise, or that no handler has used
    released = {
        (int(row[0]), int(row[1]))
        for row in database.ask("select job_id, attempt from rowcall_attempt where status = 'released'")
    }
    if twice := [one for one, times in records.items() if times > 1 and one not in released]:
        yield f"{len(twice)} attempts have run twice: {twice[:5]}"
    by_hand = {int(row[0]) for row in database.ask("select job_id from rowcall_attempts where worker = 'hand'")}
    silent = [
        job_id
        for job_id, (status, attempt) in there.items()
        if status == "succeeded" and (job_id, attempt) not in records and job_id not in by_hand
    ]
    if silent:
        yield f"{len(silent)} jobs have succeeded, and no handler has run them: {silent[:5]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", choices=["sqlite", "postgres", "mysql"])
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowcall-storm-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o711)
        url = f"sqlite:///{folder}/storm.db"
        if given.database == "postgres":
            url = stack.enter_context(PostgresServer()).create_database()
        elif given.database == "mysql":
            url = stack.enter_context(MysqlServer()).create_database()
        problems = storm(url, folder, given.jobs, given.seed)
        for problem in problems:
            print(problem)
        sys.exit(bool(problems))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["work", url, folder]:
            work(url, Path(folder))
        case ["steer", url, folder, seed, seconds]:
            steer(url, Path(folder), int(seed), float(seconds))
        case _:
            main()
