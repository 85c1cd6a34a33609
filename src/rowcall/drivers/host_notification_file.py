"""Files by which processes of one host notify each other of commits, for databases that do not.

A process that waits makes a file and watches it. After a commit, another one changes the time of the file, if it is
there: one system call. A process that misses that finds the job when it looks again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from typing import Literal

from rowcall.drivers.side_files import make_folder, open_file

About = Literal["jobs", "commits"]
"""Commits that may have made jobs due, for idle workers; or all commits, for processes that wait for ends of jobs."""


class NotificationFiles:
    """Those of one database. `name` is the same in all processes that use it, whatever their URLs."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        self._of_jobs, self._of_commits = (os.path.join(folder, f"{about}-{digest}") for about in ("jobs", "commits"))

    def about(self, about: About) -> tuple[str, Callable[[], None]]:
        """Return the path of a file to watch, and what makes that file if it is missing."""
        path = self._of_jobs if about == "jobs" else self._of_commits

        def create() -> None:
            if not os.path.exists(path):
                with contextlib.suppress(OSError):  # no one can notify, then
                    make_folder(self._folder, "")
                    os.close(open_file(path, ""))

        return path, create

    def notify(self, *, of_jobs: bool) -> None:
        """Notify the processes that wait, after a commit."""
        for path in (self._of_commits, self._of_jobs) if of_jobs else (self._of_commits,):
            with contextlib.suppress(OSError):  # no one waits
                os.utime(path)
