"""How far handlers say they are: written some times a second for all of them together, however often they say it."""

from __future__ import annotations

import threading

from rowcall.context import logger
from rowcall.domain.errors import RowcallError
from rowcall.queue.core import Core
from rowcall.store.dialect import Ready

PAUSE_SECONDS = 0.5
LAST_WORDS_SECONDS = 2.0


class Progress:
    """A thread that starts with the first word. What is said meanwhile replaces what was said before."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._said: dict[int, tuple[int, float, str | None]] = {}
        self._something = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, ready: Ready, share: float, message: str | None) -> None:
        """From any thread, without waiting."""
        with self._lock:
            self._said[ready.id] = (ready.lease, share, message)
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._report, name="rowcall-progress", daemon=True)
                self._thread.start()
        self._something.set()

    def stop(self) -> None:
        self._stopped.set()
        self._something.set()
        if self._thread is not None:
            self._thread.join(LAST_WORDS_SECONDS)

    def _report(self) -> None:
        while not self._stopped.is_set():
            self._something.wait()
            self._something.clear()
            try:
                self._write()
            except RowcallError as error:  # the loop says what ails the database; the next word comes soon
                logger.debug("progress could not be written: %s", error)
            except Exception:
                logger.exception("writing progress failed because of an error of its own")
            self._stopped.wait(PAUSE_SECONDS)

    def _write(self) -> None:
        with self._lock:
            said, self._said = self._said, {}
        if said:
            rows = [(job_id, *words) for job_id, words in sorted(said.items())]
            core = self._core
            core.write(lambda: core.dialect.mark_progress(rows, core.now_ms()))
