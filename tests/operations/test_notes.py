from __future__ import annotations

from pathlib import Path

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.notes import has_note, write_note
from rowcall.testing import FakeClock


def test_a_note_lasts_for_its_time(tmp_path: Path) -> None:
    clock = FakeClock()
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs:
        queue = queue_of(jobs)
        assert not queue.run(has_note(queue, "a"))
        for _ in range(2):
            queue.run(write_note(queue, "a", 60))
        assert [queue.run(has_note(queue, name)) for name in ("a", "b")] == [True, False]
        clock.advance(60)
        assert not queue.run(has_note(queue, "a"))
        queue.run(write_note(queue, "a", 60))
        assert queue.run(has_note(queue, "a"))
