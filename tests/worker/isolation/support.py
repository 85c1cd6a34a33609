"""Jobs for child processes, and whether a process is gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from rowcall import Backoff, Job, Rowcall
from rowcall.app import queue_of
from rowcall.testing import eventually
from rowcall.testing.process import PythonProcess
from tests.worker.support import Site


def enqueue(jobs: Rowcall, function: Callable[..., object], **arguments: object) -> Job:
    name = function.__name__
    if name not in queue_of(jobs).declared.tasks:
        jobs.task(isolation="process", max_attempts=1, retry=Backoff.constant(600))(function)
    return jobs.enqueue(name, arguments)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def started(site: Site, name: str) -> int:
    """The process in which a handler that holds has begun."""
    eventually(lambda: any(line.startswith(f"start {name} ") for line in site.lines))
    return int(next(line for line in site.lines if line.startswith(f"start {name} ")).split()[2])


def run_app(site: Site, text: str, *arguments: str) -> PythonProcess:
    (site.folder / "app.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return PythonProcess(*arguments, cwd=str(site.folder), env=env)
