from __future__ import annotations

from typing import Any

import pytest

from rowcall import InvalidOption
from rowcall.compat.celery import AsyncResult, Celery, GroupResult, chain, chord, group, signature


def test_chains_groups_and_chords(shop: Any) -> None:
    chained = chain(shop.add.s(1, 2), shop.double.s(), shop.add.s(10))()
    piped = (shop.add.s(1, 1) | shop.double.si(21)).delay()
    grouped = group(shop.add.s(n, n) for n in range(3))()
    summed = chord([shop.add.s(n, n) for n in range(3)])(shop.total.s(title="all"))
    upgraded = (group(shop.add.s(1, 1), shop.add.s(2, 2)) | shop.total.s()).apply_async()
    shop.app.jobs.drain()
    assert isinstance(grouped, GroupResult)
    assert (chained.get(timeout=1), piped.get(timeout=1), grouped.get(timeout=1)) == (16, 42, [0, 2, 4])
    assert (grouped.ready(), grouped.successful(), grouped.completed_count()) == (True, True, 3)
    assert (summed.get(timeout=1), upgraded.get(timeout=1)) == ({"all": 6}, {"sum": 6})


def test_what_follows_a_failure_fails(shop: Any) -> None:
    result = chain(shop.wrong.s(), shop.double.s())()
    shop.app.jobs.drain()
    assert isinstance(result, AsyncResult)
    assert (result.state, result.job.error_code) == ("FAILURE", "BLOCKER:FAILED")


def test_wrong_use() -> None:
    @Celery("shop", broker="sqlite:///:memory:").task
    def early(*args: object, **kwargs: object) -> None: ...

    for empty in (chain, group):
        with pytest.raises(InvalidOption, match="at least one call"):
            empty()
    with pytest.raises(InvalidOption, match="must be calls"):
        chain(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="must have a body"):
        chord([early.s()])()
    assert repr(signature(early.s(1), (0,), {"b": 2})).endswith("early(0, 1, b=2)")
