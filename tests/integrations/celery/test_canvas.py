from __future__ import annotations

from typing import Any

import pytest

from rowcall import InvalidArguments, InvalidOption
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


def test_one_job_for_many_calls(shop: Any) -> None:
    doubled, added, chunks = (
        shop.double.map([1, 2]),
        shop.add.starmap([(1, 2), (3, 4)]),
        shop.add.chunks([(n, n) for n in range(5)], 2),
    )
    results = [doubled.delay(), added.delay(), chunks()]
    after = (shop.double.map([5]) | shop.total.s()).delay()
    shop.app.jobs.drain()
    assert [result.get(timeout=1) for result in results] == [[2, 4], [3, 7], [[0, 2], [4, 6], [8]]]
    assert after.get(timeout=1) == {"sum": 10}
    assert after.parent.get(timeout=1) == [10]
    with pytest.raises(InvalidArguments):
        shop.add.starmap([(1, 2), (3,)]).delay()


def test_links_belong_to_what_they_were_added_to(shop: Any) -> None:
    call = shop.add.s(1, 2)
    call.link(shop.double.s())
    call.link_error(shop.total.s())
    chain(call.set(priority=3), shop.double.s())()
    jobs = shop.app.jobs
    jobs.drain()
    assert sorted(job.result for job in jobs.list(type="shop.double")) == [6, 6]
    assert ([job.priority for job in jobs.list(type="shop.add")], len(jobs.list(type="shop.total"))) == ([3], 1)
    with pytest.raises(InvalidOption, match="link_error must be calls"):
        call.link_error(chain(call))


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
