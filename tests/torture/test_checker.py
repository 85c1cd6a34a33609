"""Each check of `rowcall torture` finds what it is for: all is well after some jobs, and then one thing is spoilt."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from rowcall.torture.arena import SqliteArena
from rowcall.torture.checker import MOST_EXAMPLES, Checker
from rowcall.torture.producer import Producer
from rowcall.torture.torture_run import wrong_counts
from rowcall.torture.witness import Acknowledgements, WitnessFile
from rowcall.torture.workload import AT_ONCE, Workload, opened
from tests.support import eventually

PREFIX = "spoilt_"
WORKER, PRODUCER = "worker-1.attempts", "producer-1.acknowledged"


class Result(NamedTuple):
    """A database and witness files after some jobs."""

    folder: Path

    @property
    def arena(self) -> SqliteArena:
        return SqliteArena(str(self.folder / "app.db"), PREFIX)

    def problems(self) -> dict[str, int]:
        return {finding.check: finding.count for finding in Checker(self.arena, self.folder).check()}

    def ask(self, sql: str) -> list[tuple[int, ...]]:
        with closing(sqlite3.connect(self.folder / "app.db", isolation_level=None)) as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("torture")
    result = Result(folder)
    with opened(result.arena.url, PREFIX) as jobs:
        workload = Workload(jobs, WitnessFile(folder / WORKER))
        Producer(workload, Acknowledgements(folder / PRODUCER).write, "producer-1").portion()

        def is_done() -> bool:
            jobs.drain(concurrency=50)
            return not {"scheduled", "pending"} & {name for name, count in jobs.stats().by_status.items() if count}

        eventually(is_done)
    (folder / "stops").touch()
    return result


@pytest.fixture
def result(well: Result, tmp_path: Path) -> Result:
    """A copy."""
    shutil.copytree(well.folder, tmp_path / "copy")
    return Result(tmp_path / "copy")


def test_nothing_is_found_where_all_is_well(well: Result) -> None:
    assert well.problems() == {}
    counts = Checker(well.arena, well.folder)
    counts.check()
    told = counts.counts()
    assert (told.acknowledged, told.in_database, told.succeeded + told.failed) == (570, 570, 570)
    assert told.failed == 5
    assert told.attempts == told.starts == 570 + 2 * 10 + 5  # those of flaky jobs, and of failing ones
    assert told.lost == 0


JOB = "(select min(id) from spoilt_job where type = 'plain')"
SQL = {
    "lost": f"delete from spoilt_job where id = {JOB}",
    "stuck": f"update spoilt_job set status = 'pending' where id = {JOB}",
    "wrong end": f"update spoilt_job set status = 'cancelled' where id = {JOB}",
    "attempts do not fit": f"update spoilt_job set attempt = 2 where id = {JOB}",
    "start without an attempt": f"update spoilt_job set lease = lease + 2 where id = {JOB}",
    "success without a handler": f"update spoilt_job set lease = lease + 2 where id = {JOB}",
    "claims are left over": "insert into spoilt_claim (job_id, lease, holder, claimed_at, attempt, worker)"
    " values (1, 1, 1, 1, 1, 'one')",
    "workers are left over": "insert into spoilt_worker (name, host, pid, queues, concurrency, version, lease_ms,"
    " started_at, heartbeat_at) values ('one', 'host', 1, '*', 1, '1', 1, 1, 1)",
    "ready rows are left over": "insert into spoilt_ready (queue, type, rank, turn, id, since)"
    " values ('default', 'plain', 0, 1, 1, 1)",
    "attempts of deleted jobs are left over": "insert into spoilt_attempt (job_id, attempt, lease, claimed_at, status)"
    " values (123456, 1, 3, 1, 'lost')",
    "events of deleted jobs are left over": "insert into spoilt_event (job_id, at, event) values (123456, 1, 'X')",
    "slots are left over": "insert into spoilt_slot (job_id, lease, limit_key) values (1, 1, 'torture')",
    "settled twice": f"""
        insert into spoilt_attempt (job_id, attempt, lease, claimed_at, status)
        select id, 1, lease - 2, 1, 'succeeded' from spoilt_job where id = {JOB}""",
    "claim ended twice": f"""
        insert into spoilt_attempt (job_id, attempt, lease, claimed_at, status)
        select id, 1, lease, 1, 'lost' from spoilt_job where id = {JOB}""",
}


@pytest.mark.parametrize("check", SQL)
def test_a_wrong_row_is_found(result: Result, check: str) -> None:
    result.ask(SQL[check])
    assert result.problems()[check] == 1


def test_groups_whose_counts_are_wrong_are_named(result: Result) -> None:
    with opened(result.arena.url, PREFIX) as jobs:
        assert list(wrong_counts(jobs, result.arena)) == []
        row = "0, 'default', 'plain', 'succeeded', '', 1, 17"
        result.ask(f"insert into spoilt_tally (at, queue, type, status, error_code, attempt, jobs) values ({row})")
        (found,) = wrong_counts(jobs, result.arena)
    assert found.examples[1:] == ["+17 of succeeded, plain, 1"]


def test_examples_are_few_and_counts_are_whole(result: Result) -> None:
    result.ask("update spoilt_job set status = 'cancelled' where type = 'plain'")
    [finding] = [one for one in Checker(result.arena, result.folder).check() if one.check == "wrong end"]
    assert (finding.count, len(finding.examples)) == (505, MOST_EXAMPLES)


Lines = list[list[str]]


def first_of(result: Result, task: str) -> str:
    return str(result.ask(f"select min(id) from spoilt_job where type = '{task}'")[0][0])


def started_twice(result: Result, lines: Lines) -> Lines:
    return [*lines, lines[0]]


def never_ended(result: Result, lines: Lines) -> Lines:
    return [line for line in lines if line[0] != "end" or line[2] != first_of(result, "plain")]


def all_at_once(result: Result, lines: Lines) -> Lines:
    """Let all limited jobs start before the first one ends."""
    limited = {str(row[0]) for row in result.ask("select id from spoilt_job where type = 'limited'")}
    return [[line[0], "1.0", *line[2:]] if line[0] == "start" and line[2] in limited else line for line in lines]


def backwards(result: Result, lines: Lines) -> Lines:
    """Let the last job of an account with several ones start before all others."""
    several = "select max(id) from spoilt_job where ordered is not null group by ordered having count(*) > 1"
    last = result.ask(several)[0][0]
    return [["start", "1.0", *line[2:]] if line[0] == "start" and line[2] == str(last) else line for line in lines]


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("claim started twice", started_twice),
        ("success without a handler", never_ended),
        ("limit exceeded", all_at_once),
        ("out of order", backwards),
    ],
)
def test_a_wrong_line_is_found(result: Result, check: str, change: Callable[[Result, Lines], Lines]) -> None:
    path = result.folder / WORKER
    lines = [line.split() for line in path.read_text().splitlines()]
    path.write_text("".join(f"{' '.join(line)}\n" for line in change(result, lines)))
    assert result.problems().keys() == {check}


def test_a_worker_that_was_stopped_may_start_what_it_no_longer_holds(result: Result) -> None:
    job_id = first_of(result, "plain")
    with (result.folder / WORKER).open("a") as file:
        file.write(f"start 1000000000000.0 {job_id} 1 99\n")
    assert result.problems() == {"start without an attempt": 1}
    (result.folder / "stops").write_text("worker-1 5.0\n")
    assert result.problems() == {}


def test_a_torn_line_is_left_out(result: Result) -> None:
    with (result.folder / WORKER).open("a") as file:
        file.write("start 1.0 7")
    assert result.problems() == {}


def test_the_limit_is_that_of_the_task() -> None:
    assert AT_ONCE < 10, "all_at_once needs more jobs than may run at the same time"
