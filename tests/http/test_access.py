from __future__ import annotations

from rowcall import Access


def test_readers_may_not_operate() -> None:
    assert not Access("ann").may_operate
    assert Access("ann", "operate").may_operate
