"""Reading jobs: pages that stand still, and questions that make no sense."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rowcall import ChainNotFound, InvalidOption, JobNotFound, Page, Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations.enqueue import bind


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


def all_pages(first: Page, more: Callable[[str], Page]) -> list[int]:
    ids, page = [job.id for job in first.jobs], first
    while page.next_cursor is not None:
        page = more(page.next_cursor)
        ids += [job.id for job in page.jobs]
    return ids


@pytest.mark.parametrize("limit", [1, 3, 10, 11])
def test_pages_hold_every_job_once_newest_first(jobs: Rowcall, limit: int) -> None:
    for _ in range(10):
        jobs.enqueue("task")
    first = jobs.list(limit=limit)
    assert all_pages(first, lambda cursor: jobs.list(limit=limit, cursor=cursor)) == list(range(10, 0, -1))


def test_what_comes_and_goes_meanwhile_moves_nothing(jobs: Rowcall) -> None:
    for _ in range(10):
        jobs.enqueue("task")

    def meddle(cursor: str) -> Page:
        jobs.enqueue("task")
        jobs.delete(jobs.list(limit=1).jobs[0].id)
        jobs.enqueue("task")
        return jobs.list(limit=3, cursor=cursor)

    assert all_pages(jobs.list(limit=3), meddle) == list(range(10, 0, -1))


def test_a_cursor_outlives_the_job_it_names(jobs: Rowcall) -> None:
    for _ in range(4):
        jobs.enqueue("task")
    page = jobs.list(limit=2)
    jobs.delete(page.jobs[-1].id)
    assert [job.id for job in jobs.list(limit=2, cursor=page.next_cursor).jobs] == [2, 1]


def test_filters_narrow_together(jobs: Rowcall) -> None:
    wanted = jobs.enqueue("send", queue="mail", tags=["a"], delay=60)
    jobs.enqueue("send", queue="mail", tags=["a"])
    jobs.enqueue("send", queue="mail", tags=["b"], delay=60)
    jobs.enqueue("send", queue="other", tags=["a"], delay=60)
    jobs.enqueue("other", queue="mail", tags=["a"], delay=60)
    page = jobs.list(status="scheduled", queue="mail", type="send", tag="a")
    assert (page.jobs, page.next_cursor) == ([wanted], None)
    assert [job.id for job in jobs.list(status=Status.SCHEDULED, type="send").jobs] == [4, 3, 1]


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"limit": True}, "limit"),
        ({"status": "done"}, "status"),
        ({"status": ""}, "status"),
        ({"status": 5}, "status"),
        ({"cursor": "5"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "before-"}, "cursor"),
        ({"cursor": "before-9999999999999999999"}, "cursor"),
        ({"cursor": "before-1; drop table rowcall_job"}, "cursor"),
        ({"cursor": 5}, "cursor"),
        ({"queue": "\ud800"}, "queue"),
        ({"queue": 5}, "queue"),
        ({"type": "\ud800"}, "type"),
        ({"tag": ["a"]}, "tag"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(jobs: Rowcall, given: dict[str, Any], option: str) -> None:
    for ask in (jobs.list, lambda **given: asyncio.run(jobs.alist(**given))):
        with pytest.raises(InvalidOption) as caught:
            ask(**given)
        assert caught.value.option == option


def readers(jobs: Rowcall) -> list[Callable[[Any], object]]:
    return [
        jobs.get,
        jobs.attempts,
        jobs.timeline,
        jobs.dependents,
        jobs.why,
        lambda job_id: asyncio.run(jobs.aget(job_id)),
        lambda job_id: asyncio.run(jobs.aattempts(job_id)),
        lambda job_id: asyncio.run(jobs.atimeline(job_id)),
    ]


@pytest.mark.parametrize("job_id", [0, -1, 2**63, 10**23])
def test_a_number_that_cannot_be_an_id_is_not_found(jobs: Rowcall, job_id: int) -> None:
    calls: list[Callable[[Any], object]] = [
        *readers(jobs),
        *(jobs.blockers, jobs.steps, jobs.stack, jobs.cancel, jobs.retry, jobs.delete, jobs.complete),
        lambda id: jobs.reschedule(id, delay=1),
        lambda id: jobs.set_priority(id, 1),
        lambda id: jobs.edit(id, {}),
        lambda id: jobs.result(id, timeout=0),
        lambda id: jobs.signal(id, "x"),
    ]
    for call in calls:
        with pytest.raises(JobNotFound, match=f"job {job_id} does not exist"):
            call(job_id)
    calls = [jobs.chain, jobs.cancel_chain, jobs.delete_chain, lambda id: jobs.list(chain=id)]
    for call in calls:
        with pytest.raises(ChainNotFound, match=f"chain {job_id} does not exist"):
            call(job_id)


@pytest.mark.parametrize("job_id", [pytest.param(10**5000, id="huge"), 1.5, "1", None, True])
def test_what_is_no_id_is_refused(jobs: Rowcall, job_id: Any) -> None:
    for read in readers(jobs):
        with pytest.raises(InvalidOption, match="job must be a Job or its id"):
            read(job_id)


def test_a_job_is_as_good_as_its_id(jobs: Rowcall) -> None:
    job = jobs.enqueue("send")
    assert [read(job) for read in readers(jobs)] == [read(job.id) for read in readers(jobs)]
    assert jobs.blockers(job) == []
    assert jobs.dependents(job) == []
    assert jobs.reschedule(job, delay=0).id == jobs.set_priority(job, 1).id == job.id
    assert jobs.cancel(job).status == "cancelled"
    assert jobs.retry(job).status == "pending"
    assert jobs.get(jobs.enqueue("send", after=job)).status == "blocked"
    running = jobs.dequeue("hand")
    assert running is not None
    jobs.complete(running, "done")
    assert jobs.result(job) == "done"
    jobs.delete(jobs.enqueue("send"))


def test_a_chain_or_its_step_is_as_good_as_its_id(jobs: Rowcall) -> None:
    part = bind(queue_of(jobs), "send", (), {})
    chain = jobs.start_chain([part, part])
    assert jobs.chain(chain) == jobs.chain(chain.steps[1]) == jobs.chain(chain.id)
    assert jobs.cancel_chain(chain).id == jobs.complete_chain(jobs.start_chain([part])).id - 2
    assert jobs.delete_chain(chain) == 2
    with pytest.raises(InvalidOption, match="must be a Job or its id, got a Chain"):
        jobs.get(chain)  # type: ignore[call-overload]


def test_a_wrong_id_is_refused_in_few_words(jobs: Rowcall) -> None:
    job = jobs.enqueue("send", {"text": "x" * 1000})
    text: Any = "x" * 1000
    with pytest.raises(InvalidOption) as caught:
        jobs.get(text)
    assert len(str(caught.value)) < 100
    assert jobs.get(job.id) == job


def test_a_job_that_is_not_there(jobs: Rowcall) -> None:
    for read in readers(jobs):
        with pytest.raises(JobNotFound, match="job 7 does not exist") as caught:
            read(7)
        assert caught.value.job_id == 7


def test_the_async_twins_see_the_same(jobs: Rowcall) -> None:
    job = jobs.enqueue("task", tags=["a"])

    async def look() -> None:
        assert await jobs.aget(job.id) == job
        assert await jobs.alist(tag="a") == jobs.list(tag="a")
        assert await jobs.aattempts(job.id) == []
        assert await jobs.atimeline(job.id) == jobs.timeline(job.id)
        assert await jobs.aworkers() == []
        found, expected = await jobs.astats(), jobs.stats()  # apart from the moment they were asked
        for part in ("total", "by_status", "by_queue", "by_type", "pace", "pace_by_queue", "pace_by_type"):
            assert getattr(found, part) == getattr(expected, part), part

    asyncio.run(look())


def test_counts_name_every_state(jobs: Rowcall) -> None:
    assert jobs.stats().by_status == dict.fromkeys(Status, 0)
    jobs.enqueue("task", queue="mail")
    jobs.enqueue("task", queue="mail", delay=60)
    jobs.enqueue("task")
    stats = jobs.stats()
    assert stats.total == 3
    assert (stats.by_status["pending"], stats.by_status["scheduled"]) == (2, 1)
    assert list(stats.by_queue) == ["default", "mail"]
    assert stats.by_queue["mail"] == dict.fromkeys(Status, 0) | {Status.PENDING: 1, Status.SCHEDULED: 1}
