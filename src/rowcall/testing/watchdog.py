"""Remove what a killed process leaves behind."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

# reads until no process can write any more: until its owner is gone
SCRIPT = """
signal=$1 process=$2
shift 2
read -r _
kill -s "$signal" "$process" 2>/dev/null
rounds=0
while kill -0 "$process" 2>/dev/null && [ $rounds -lt 100 ]; do sleep 0.1; rounds=$((rounds + 1)); done
[ $# -eq 0 ] || rm -rf -- "$@"
"""


class Watchdog:
    """Ends a process, and removes folders, when the process that made it is gone, however it went."""

    def __init__(self, pid: int, *, by: signal.Signals, remove: Sequence[Path] = ()) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, "watchdog", by.name.removeprefix("SIG"), str(pid), *map(str, remove)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """Stop watching the process. Call it before the process ends: its id may be used again."""
        self._process.kill()
        self._process.communicate()
