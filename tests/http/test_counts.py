from __future__ import annotations

import asyncio

from rowcall import Rowcall
from rowcall.domain.job import Stats
from rowcall.http.counts import LONGEST_SECONDS, SharedCounts
from rowcall.testing import FakeClock


def test_slow_answers_are_reused_for_a_while(filled: Rowcall) -> None:
    clock, asked, took = FakeClock(), [0], [0.01]
    counts, stats = SharedCounts(clock), filled.stats()

    async def ask() -> Stats:
        asked[0] += 1
        clock.advance(took[0])
        return stats

    def read(window: float = 60) -> int:
        assert asyncio.run(counts.read(window, ask)) is stats
        return asked[0]

    assert [read(), read()] == [1, 2]  # quick answers are not reused
    took[0] = 0.3
    assert [read(), read()] == [3, 3]
    assert read(3600) == 4
    clock.advance(5.9)
    assert read() == 5
    counts.forget()
    assert read() == 6
    took[0] = 100
    clock.advance(7)
    assert read() == 7
    clock.advance(LONGEST_SECONDS)
    assert read() == 8
