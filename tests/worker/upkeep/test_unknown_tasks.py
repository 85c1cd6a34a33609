"""Jobs that do not fit one version of a task: in child processes, with large payloads, and while others run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from rowcall.worker.loop import Loop
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
def test_what_does_not_fit_a_child_is_tried_once_by_its_version(
    jobs: Rowcall, module: Module, text: str, said: str
) -> None:
    jobs.task(isolation="process")(module.greet)
    job = jobs.enqueue("greet", {"name": "ann"})
    module.replace(text)
    assert jobs.drain(concurrency=1).released == 1
    module.replace(OLD)
    assert jobs.drain(concurrency=1).total == 0
    waiting = jobs.get(job.id)
    assert (waiting.status, waiting.attempt, len(jobs.attempts(job.id))) == ("pending", 0, 1)
    assert said in (waiting.error_detail or "")
    jobs.reschedule(job.id, delay=0)
    assert jobs.drain(concurrency=1).succeeded == 1


def test_an_isolated_task_has_aliases(jobs: Rowcall, module: Module) -> None:
    jobs.task(name="new", aliases=["old"], isolation="process")(module.greet)
    job = jobs.enqueue("old", {"name": "ann"})
    assert jobs.drain(concurrency=1).succeeded == 1
    assert jobs.get(job.id).result == "ann"


def test_a_large_payload_is_tried_once_by_each_version(tmp_path: Path) -> None:
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
        assert [old.drain().released for _ in range(2)] == [1, 0]
        assert [attempt.status for attempt in old.attempts(job.id)] == ["released"]
        assert new.drain().succeeded == 1
        assert new.get(job.id).result == 5000


def test_a_worker_of_other_queues_leaves_it(jobs: Rowcall, site: Site) -> None:
    job = jobs.enqueue("greet", {"name": "ann", "loud": True}, queue="mail")

    @jobs.task
    def greet(name: str) -> None: ...

    assert jobs.drain(queues="mail").released == 1
    with Rowcall(site.database) as new:

        @new.task(name="greet")
        def greet_loudly(name: str, loud: bool) -> None: ...

        assert new.drain(queues="other").total == 0
        assert new.get(job.id).status == "pending"
        assert new.drain(queues="mail").succeeded == 1


def test_what_no_worker_can_claim_does_not_keep_the_loop_busy(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[None] = []
    round_or_one_by_one = Loop._round_or_one_by_one

    def counted(self: Loop) -> None:
        rounds.append(None)
        round_or_one_by_one(self)

    monkeypatch.setattr(Loop, "_round_or_one_by_one", counted)
    refused = jobs.enqueue("greet", {"name": "ann", "loud": True})

    @jobs.task
    def greet(name: str) -> None: ...

    with jobs.worker(concurrency=1, lease=2):
        eventually(lambda: jobs.get(refused.id).error_code is not None)
        done = [greet.enqueue(str(number)) for number in range(20)]
        for job in done:
            jobs.result(job, timeout=30)
        before, heartbeats = len(rounds), jobs.workers()[0].heartbeats
        eventually(lambda: jobs.workers()[0].heartbeats > heartbeats + 1)
        assert len(rounds) - before <= 3
    assert len(jobs.attempts(refused.id)) == 1
