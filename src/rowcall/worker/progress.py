"""Writes the progress that handlers report: at most twice a second, for all of them together."""

from __future__ import annotations

import threading

import msgspec

from rowcall.domain.encryption import Kind
from rowcall.operations.effects import Write
from rowcall.queue import Queue
from rowcall.store.jobs.marks import mark
from rowcall.store.queries.claims import Mark
from rowcall.worker.pace import PROGRESS_SECONDS
from rowcall.worker.service import Background


class ProgressWriter:
    """Its thread starts with the first report. A report replaces the one before it of the same attempt."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._reports: dict[tuple[int, int], tuple[Mark, str]] = {}
        self._reported = threading.Event()
        self.thread = Background("progress", self._run, queue.clock, wake=self._reported)

    def note(self, report: Mark, task: str) -> None:
        """Note a report, from any thread, without waiting."""
        with self._lock:
            self._reports[report.job_id, report.lease] = (report, task)
            self.thread.start()
        self._reported.set()

    def _run(self, thread: Background) -> None:
        while not thread.stopping():
            self._reported.wait()
            self._reported.clear()
            thread.attempt(self._write)
            thread.pause(PROGRESS_SECONDS)

    def _write(self) -> None:
        with self._lock:
            reports, self._reports = self._reports, {}
        if reports:
            queue, encrypted = self._queue, self._queue.blobs.encrypted_text
            marks = [
                msgspec.structs.replace(report, message=encrypted(report.message, task, Kind.PROGRESS))
                for report, task in reports.values()
            ]
            queue.run(Write(mark, queue.dialect, marks))
