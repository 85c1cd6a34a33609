"""A move that is killed again and again, while producers and workers run: every job runs, and only once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.conformance.notes import Notes
from tests.moving.product import move_and_die, stop_file
from tests.mysql_server import ALL
from tests.support import ForkedProcess, PythonProcess, eventually

pytestmark = [pytest.mark.no_tables, pytest.mark.slow, pytest.mark.concurrency]
KILLS = int(os.environ.get("ROWCALL_TEST_MOVE_KILLS", "5"))
KILLS_AT_ONCE = 5
"""Of one move."""
MOVES = -(-KILLS // KILLS_AT_ONCE)
PAIRS = (("sqlite", "postgres"), ("postgres", "sqlite"))
MYSQL_PAIRS = (("sqlite", "mysql"), ("mysql", "sqlite"), ("mysql", "postgres"), ("postgres", "mysql"))
RUNS = [
    *((number, *PAIRS[number % 2]) for number in range(MOVES)),
    *((number, *MYSQL_PAIRS[number % 4]) for number in range(max(2, MOVES) if ALL else 0)),
]
MOST_STATEMENTS = 400
"""Of a move with few jobs, from its beginning."""
PATIENCE_SECONDS = 60.0
BEFORE = 300


@pytest.mark.new_database
@pytest.mark.parametrize(("number", "source_kind", "target_kind"), RUNS)
def test_nothing_is_lost_or_run_twice(
    number: int, source_kind: str, target_kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = int(os.environ.get("ROWCALL_TEST_SEED", random.randrange(2**32)))
    print(f"ROWCALL_TEST_SEED={seed}")
    source, target = (
        f"sqlite:///{tmp_path}/app.db" if kind == "sqlite" else str(request.getfixturevalue(f"{kind}_url"))
        for kind in (source_kind, target_kind)
    )
    notes = Notes(tmp_path / "notes")
    fill(source, notes)
    with contextlib.ExitStack() as running:

        def start(command: str) -> PythonProcess:
            arguments = ("-m", "tests.moving.product", source, target, command, str(tmp_path / "notes"))
            return running.enter_context(ForkedProcess(*arguments))

        workers, producers = [start("work") for _ in range(2)], [start("produce") for _ in range(2)]

        def more(event: str) -> None:
            count = len(notes.read(event))
            eventually(lambda: len(notes.read(event)) > count + 20, within=PATIENCE_SECONDS)

        more("ran")
        killed = move_with_kills(source, target, random.Random(seed), tmp_path / "error")
        more("enqueued")
        more("ran")
        stop_file(tmp_path / "notes").touch()
        assert [producer.wait() for producer in producers] == [0, 0], [one.output for one in producers]
        with Rowcall(target) as jobs:
            eventually(lambda: unfinished(jobs) == 0, within=PATIENCE_SECONDS)
        for worker in workers:
            worker.send(signal.SIGTERM)
        assert [worker.wait() for worker in workers] == [0, 0], [one.output for one in workers]
    ran = Counter(note.job_id for note in notes.read("ran"))
    assert set(ran.values()) == {1}, "run twice"
    assert {note.job_id for note in notes.read("enqueued")} == set(ran), "lost, or not enqueued by anyone"
    print(f"{killed} kills, {len(ran)} jobs")


def fill(source: str, notes: Notes) -> None:
    with Rowcall(source) as jobs:
        for _ in range(BEFORE):
            notes.write("enqueued", jobs.enqueue("note").id)


def move_with_kills(source: str, target: str, choice: random.Random, error: Path) -> int:
    killed = 0
    while True:
        number = choice.randrange(1, MOST_STATEMENTS) if killed < KILLS_AT_ONCE else 0
        status = move_and_die(source, target, number, error)
        if status == 0:
            return killed
        assert os.WIFSIGNALED(status), error.read_text(encoding="utf-8")
        killed += 1


def unfinished(jobs: Rowcall) -> int:
    by_status = jobs.stats().by_status
    return sum(by_status[status] for status in ("blocked", "scheduled", "pending", "running"))
