"""Pruners that are killed: `python -m tests.observe.pruner URL KILLS SEED`.

This process opens no database: it forks, so that each pruner is a separate process and yet quick to start. Each is
killed at some moment after its first batch.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations import retention as keeping

LONGEST_LIFE_SECONDS = 0.015  # after the first batch
keeping.LARGEST_BATCH = 20  # so that there is much to kill


def prune(url: str, told: int) -> None:
    asked = 0

    def stopped() -> bool:
        """Asked before each batch."""
        nonlocal asked
        asked += 1
        if asked == 2:
            os.write(told, b".")
        return False

    jobs = Rowcall(url)
    queue_of(jobs).backend.ensure_schema()
    keeping.Pruner(queue_of(jobs), queue_of(jobs).database.connect(), stopped).prune()


def in_a_child(run: Callable[[int], None]) -> tuple[int, int]:
    """The child's pid, and where it can be heard."""
    hears, tells = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tells)
        return pid, hears
    try:
        os.close(hears)
        run(tells)
    finally:
        os._exit(1)


def main() -> None:
    url, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    Rowcall(url)  # opens nothing, but all that is imported for it need not be imported by each child
    killed = 0
    while killed < kills:
        pid, hears = in_a_child(lambda tells: prune(url, tells))
        heard = os.read(hears, 1)
        os.close(hears)
        if heard:
            threading.Event().wait(chance.uniform(0, LONGEST_LIFE_SECONDS))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert heard, f"nothing was left to prune after {killed} kills"
        killed += os.WIFSIGNALED(status)
    print(f"killed {killed};", flush=True)


if __name__ == "__main__":
    main()
