"""Jobs that do not fit one worker, where only an attempt shows it: in child processes, and with large payloads."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.statement import Statement, as_is, execute
from rowcall.testing import eventually
from rowcall.worker.loop import Loop
from rowcall.worker.service import Stopping, never
from rowcall.worker.settings import settings
from rowcall.worker.upkeep import mismatches
from rowcall.worker.upkeep.mismatches import Mismatches
from tests.worker.support import Site

OLD = "def greet(name: str) -> str:\n    return name\n"
NEW = "def greet(name: str, loud: bool) -> str:\n    return name.upper() if loud else name\n"
RENAMED = "def salute(name: str) -> str:\n    return name\n"


class Module:
    """A module that is replaced on the disk while the process that has imported it runs on."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "replaced_module.py"
        self._path.write_text(OLD)
        self.greet = importlib.import_module("replaced_module").greet

    def replace(self, text: str) -> None:
        self._path.write_text(text)


@pytest.fixture
def module(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    monkeypatch.syspath_prepend(site.folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Module(site.folder)
    del sys.modules["replaced_module"]


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each check, of which there are many a second."""
    checks: list[None] = []
    check = Mismatches._check

    def counted(self: Mismatches, stopping: Stopping, any_held: bool) -> None:
        check(self, stopping, any_held)
        checks.append(None)

    monkeypatch.setattr(Mismatches, "_check", counted)
    monkeypatch.setattr(mismatches, "PAUSE_SECONDS", 0.01)
    return checks


def hold_all(jobs: Rowcall) -> None:
    held = Statement("update rowcall_job set held = 'mismatch', held_until = run_at + 600000", (), as_is)
    queue_of(jobs).run(Write(lambda: execute(held)))


def test_a_child_with_newer_code_runs_what_its_worker_does_not_know(jobs: Rowcall, module: Module) -> None:
    jobs.task(isolation="process")(module.greet)
    job = jobs.enqueue("greet", {"name": "ann"})
    module.replace(OLD.replace("name: str", "name: str, loud: bool = True"))
    assert jobs.drain(concurrency=1).succeeded == 1
    assert jobs.get(job.id).result == "ann"


@pytest.mark.parametrize(
    ("text", "said"),
    [(NEW, "missing argument 'loud'"), (RENAMED, "replaced_module has no function greet any more")],
)
def test_what_does_not_fit_a_child_is_tried_once_by_its_worker(
    jobs: Rowcall, module: Module, checks: list[None], text: str, said: str
) -> None:
    jobs.task(isolation="process")(module.greet)
    job = jobs.enqueue("greet", {"name": "ann"})
    module.replace(text)
    with jobs.worker(concurrency=1):
        eventually(lambda: jobs.get(job.id).error_code == "INVALID_INPUT:SCHEMA_MISMATCH")
        seen = len(checks)
        eventually(lambda: len(checks) > seen + 2)
        assert len(jobs.attempts(job.id)) == 1
    waiting = jobs.get(job.id)
    assert (waiting.status, waiting.attempt) == ("pending", 0)
    assert said in (waiting.error_detail or "")
    module.replace(OLD)
    assert jobs.drain(concurrency=1).succeeded == 1


def test_an_isolated_task_has_aliases(jobs: Rowcall, module: Module) -> None:
    jobs.task(name="new", aliases=["old"], isolation="process")(module.greet)
    job = jobs.enqueue("old", {"name": "ann"})
    assert jobs.drain(concurrency=1).succeeded == 1
    assert jobs.get(job.id).result == "ann"


def test_a_large_payload_is_tried_once_by_each_worker(tmp_path: Path, checks: list[None]) -> None:
    with (
        Rowcall(tmp_path / "app.db", blob_threshold=1024) as old,
        Rowcall(tmp_path / "app.db", blob_threshold=1024) as new,
    ):

        @old.task(name="greet")
        def greet(name: str) -> int:
            return len(name)

        @new.task(name="greet")
        def greet_loudly(name: str, loud: bool) -> int:
            return len(name)

        job = greet_loudly.enqueue("a" * 5000, loud=True)
        with old.worker():
            eventually(lambda: old.get(job.id).error_code is not None)
            seen = len(checks)
            eventually(lambda: len(checks) > seen + 2)
        assert [attempt.status for attempt in old.attempts(job.id)] == ["released"]
        assert new.drain().succeeded == 1
        assert new.get(job.id).result == 5000


def test_a_worker_of_other_queues_leaves_it(jobs: Rowcall) -> None:
    @jobs.task
    def greet(name: str) -> None: ...

    job = jobs.enqueue("greet", {"name": "ann"}, queue="mail")
    hold_all(jobs)
    assert jobs.drain(queues="other").total == 0
    assert jobs.get(job.id).status == "pending"
    assert jobs.drain(queues="mail").succeeded == 1


def test_what_was_refused_is_remembered_while_it_waits(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    @jobs.task
    def greet(name: str) -> None: ...

    job = jobs.enqueue("greet", {"name": "ann"})
    refused, offered = {job.id, 700}, list[int]()  # the last is not committed yet
    held = Mismatches(queue_of(jobs), settings(), refused, offered.extend)
    hold_all(jobs)
    held.check()
    assert (refused, offered, held.expected) == ({job.id, 700}, [], True)
    jobs.cancel(job.id)
    held._check(never, any_held=True)
    assert (refused, held.expected) == ({700}, False)
    monkeypatch.setattr(mismatches, "MOST_REMEMBERED", 0)
    held._check(never, any_held=True)
    assert refused == set()


def test_offers_that_there_is_no_room_for_do_not_keep_the_loop_busy(
    jobs: Rowcall, checks: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[None] = []
    round_or_one_by_one = Loop._round_or_one_by_one

    def counted(self: Loop) -> None:
        rounds.append(None)
        round_or_one_by_one(self)

    monkeypatch.setattr(Loop, "_round_or_one_by_one", counted)

    @jobs.task
    def greet(name: str) -> None: ...

    @jobs.task(batch=10, batch_wait=3600)
    def gather(items: list[int]) -> None: ...

    held = greet.enqueue("ann")
    hold_all(jobs)
    jobs.pause("default")
    waiting = gather.using(queue="other").enqueue(1)
    with jobs.worker(concurrency=1, grace=0):
        eventually(lambda: jobs.get(waiting.id).status == "running")
        jobs.resume("default")  # the batch that waits for more has the slot
        seen, before = len(checks), len(rounds)
        eventually(lambda: len(checks) > seen + 20)
        assert len(rounds) - before <= 2 * (len(checks) - seen)
        assert jobs.get(held.id).status == "pending"
