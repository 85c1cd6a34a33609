"""Jobs that run where they are enqueued. `rowcall.testing.inline` has more tests of this."""

from __future__ import annotations

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.worker.inline import Inline


def test_it_ends_with_its_block() -> None:
    with Rowcall("sqlite:///:memory:") as jobs:

        @jobs.task
        def double(number: int) -> int:
            return number * 2

        outer, inner = (Inline(queue_of(jobs), jobs.drain, jobs.adrain) for _ in range(2))
        with outer.on():
            with inner.on():
                assert double.enqueue(1).result == 2
            assert double.enqueue(2).result == 4
        assert double.enqueue(3).status == "pending"
