"""A process and all that it started: what they use, and their end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
GONE = (FileNotFoundError, ProcessLookupError)


def tree_of(pid: int) -> list[int]:
    """Return the process and its descendants, whatever sessions and groups they have made."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(*GONE):
            children.setdefault(int(_stat(path)[1]), []).append(int(path.parent.name))
    tree = [pid]
    for parent in tree:
        tree += children.get(parent, [])
    return tree


def kill_tree(pid: int) -> None:
    """SIGKILL all of them: the parents are stopped first, so that none of them starts another child."""
    for name in (signal.SIGSTOP, signal.SIGKILL):
        for member in tree_of(pid):
            with suppress(ProcessLookupError):
                os.kill(member, name)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    nanoseconds = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(*GONE):  # a thread may end now
            nanoseconds += int(path.read_text().split()[0])
    if nanoseconds:
        return nanoseconds / 1e9
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return (int(fields[11]) + int(fields[12])) / TICKS


def proportional_megabytes(pid: int) -> float:
    """Return the memory it holds, in units of 1,000,000 bytes; what it shares with others counts by its share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


def _stat(path: Path) -> list[str]:
    """Return the fields after the name of the program."""
    return path.read_text().rpartition(")")[2].split()
