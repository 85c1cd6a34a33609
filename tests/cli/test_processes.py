"""Demo and bench clear up after themselves, also when they are interrupted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.cli.processes import interruptible, working
from rowcall.cli.target import url_of
from tests.support import PythonProcess, eventually


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_neither_files_nor_processes(folder: Path, number: signal.Signals) -> None:
    with PythonProcess("-m", "rowcall", "demo", env={**os.environ, "TMPDIR": str(folder)}) as process:
        process.wait_for("2 workers")
        [database] = folder.glob("*/demo.db")
        with Rowcall(database) as jobs:
            workers = [worker.pid for worker in jobs.workers()]
        process.send(number)
        assert process.wait() == 130
        assert "Traceback" not in process.output
    assert list(folder.iterdir()) == []
    eventually(lambda: not any(map(is_running, workers)))


@pytest.mark.parametrize("options", [(), ("--processes=2",)])
def test_workers_end_with_the_holder_of_their_leash(queue: Rowcall, folder: Path, options: tuple[str, ...]) -> None:
    program = (
        "import sys, threading; from rowcall.cli.processes import working\n"
        "with working(*sys.argv[1:]): threading.Event().wait()"
    )
    arguments = ("-c", program, "app:jobs", url_of(folder / "queue.db"), *options)
    with PythonProcess(*arguments, cwd=str(folder)) as process:
        eventually(lambda: len(queue.workers()) == 1 + len(options))
        process.kill()
        eventually(lambda: queue.workers() == [])


def test_a_worker_is_given_its_url_and_ends_with_the_block(app: Path, folder: Path) -> None:
    (folder / "other.py").write_text("from rowcall import Rowcall\njobs = Rowcall()\n")
    path = folder / "a %20?b.db"
    with Rowcall(path) as jobs:
        with working("other:jobs", url_of(path), "--log-level=error") as process:
            eventually(jobs.workers)
        assert process.returncode == 0
        assert jobs.workers() == []


def test_sigterm_ends_a_block_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def is_running(pid: int) -> bool:
    """Whether another process still runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")
