from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.conformance.notes import Note, Notes


def test_what_was_never_written_is_empty(tmp_path: Path) -> None:
    assert Notes(tmp_path / "notes").read() == []


def test_notes_come_back_in_order_and_by_kind(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    notes.write("started", 7, 1)
    notes.write("ended", 7, 1)
    assert notes.read() == [Note("started", 7, 1, os.getpid()), Note("ended", 7, 1, os.getpid())]
    assert notes.read("ended") == [Note("ended", 7, 1, os.getpid())]


def test_threads_do_not_tear_each_other_s_lines(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    threads = [threading.Thread(target=notes.write, args=("started", number, 1)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(note.job_id for note in notes.read()) == list(range(40))
