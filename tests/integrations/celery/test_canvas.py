from __future__ import annotations

import json
from typing import Any

import pytest

from rowcall import InvalidArguments, InvalidOption
from rowcall.compat.celery import AsyncResult, Celery, GroupResult, chain, chord, group, maybe_signature, signature


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


def test_options_are_added_to_the_call_itself(shop: Any) -> None:
    call = shop.add.s(1, 2)
    other = call.clone((), {}, priority=4)
    assert call.set(queue="slow", countdown=60) is call
    call.set(link=shop.double.s(), immutable=True)
    jobs, job = shop.app.jobs, call.delay(7).job
    assert (job.queue, job.status, job.payload["args"]) == ("slow", "scheduled", [1, 2])
    assert [one.status for one in jobs.list(type="shop.double")] == ["blocked"]
    job = other.delay().job
    assert (job.queue, job.status, job.priority) == ("default", "pending", 4)
    flow = chain(shop.wrong.s())
    assert flow.on_error(shop.report.s()) is flow
    flow.delay()
    assert len(jobs.list(type="shop.report")) == 1


def test_the_link_of_a_group_is_called_once_when_all_have_succeeded(shop: Any) -> None:
    calls = group(shop.add.s(n, n) for n in range(3))
    calls.link(shop.pulse.s())
    calls.apply_async(link=chain(shop.add.s(1, 1), shop.double.s()))
    group(shop.add.s(1, 1), shop.wrong.s()).apply_async(link=shop.clean_up.s(30))
    jobs = shop.app.jobs
    jobs.drain()
    assert [job.status for job in jobs.list(type="shop.pulse")] == ["succeeded"]
    assert [job.result for job in jobs.list(type="shop.double")] == [4]
    assert [job.error_code for job in jobs.list(type="shop.clean_up")] == ["BLOCKER:FAILED"]


def test_a_canvas_is_stored_as_a_dict(shop: Any) -> None:
    call = shop.add.s(1, y=2).set(priority=3, link=shop.double.s(), immutable=True)
    assert json.loads(json.dumps(dict(call))) == {
        "task": "shop.add",
        "args": [1],
        "kwargs": {"y": 2},
        "options": {"priority": 3, "link": [dict(shop.double.s())]},
        "subtask_type": None,
        "immutable": True,
    }
    parts = [
        call,
        chain(shop.add.s(1, 2), shop.double.s()).on_error(shop.report.s()),
        group(shop.add.s(n, n) for n in range(2)),
        chord([shop.add.s(1, 1)], shop.total.s()),
        shop.double.map([1, 2]),
        shop.add.starmap([(1, 2)]),
    ]
    for part in parts:
        stored = json.loads(json.dumps(dict(part)))
        again = signature(stored)
        assert (type(again), dict(again)) == (type(part), stored)
    ran = [signature(dict(part)).delay() for part in parts]
    linked = shop.add.apply_async((1, 2), link=dict(shop.double.s()))
    shop.app.jobs.drain()
    assert [result.get(timeout=1) for result in ran] == [3, 6, [0, 2], {"sum": 2}, [2, 4], [3]]
    assert linked.get(timeout=1) == 3
    assert maybe_signature(None) is None
    assert maybe_signature(call) is call
    assert maybe_signature(call, clone=True) is not call
    assert shop.app.signature(dict(call))["task"] == "shop.add"
    for wrong in ({}, {"task": 3}, {"subtask_type": "star"}, {"subtask_type": "chain"}):
        with pytest.raises(InvalidOption, match="must be a call, or a dict of one"):
            signature(wrong)


def test_a_call_is_an_argument_of_another(app: Celery) -> None:
    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    @app.task
    def call_back(then: Any) -> Any:
        return signature(then, (1,)).delay().id

    result = call_back.delay(add.s(2).set(priority=7))
    app.jobs.drain()
    job = AsyncResult(str(result.get(timeout=1))).job
    assert (job.result, job.priority) == (3, 7)


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
