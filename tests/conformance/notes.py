"""Notes that processes leave for the test: one line each, whole or not at all, and there even after SIGKILL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Note(NamedTuple):
    event: str
    job_id: int
    attempt: int
    pid: int


class Notes:
    def __init__(self, path: str | Path) -> None:
        self._path = path

    def write(self, event: str, job_id: int = 0, attempt: int = 0, *, durable: bool = False) -> None:
        line = f"{event} {job_id} {attempt} {os.getpid()}\n".encode()
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(fd, line)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, event: str | None = None) -> list[Note]:
        """The notes so far, in order; of one kind, if named."""
        try:
            lines = Path(self._path).read_text().splitlines()
        except FileNotFoundError:
            return []
        notes = [_note(*line.split()) for line in lines]
        return [note for note in notes if event is None or note.event == event]


def _note(event: str, job_id: str, attempt: str, pid: str) -> Note:
    return Note(event, int(job_id), int(attempt), int(pid))
