"""Paused queues and tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rowcall import InvalidOption, Limit, Rowcall, Status
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store


class TestPausing:
    def test_nothing_of_a_paused_queue_is_claimed_until_it_is_resumed(self, jobs: Rowcall) -> None:
        mail = jobs.enqueue("send", queue="mail").id
        other = jobs.enqueue("send", queue="other").id
        jobs.pause("mail")
        assert [job.id for job in jobs.claim("hand", limit=10)] == [other]
        assert jobs.dequeue("hand", queues=["mail"]) is None
        assert jobs.get(mail).status is Status.PENDING
        assert jobs.resume("mail") is True
        assert [job.id for job in jobs.claim("hand", limit=10)] == [mail]

    def test_nothing_of_a_paused_task_is_claimed_in_any_queue(self, jobs: Rowcall) -> None:
        for queue in ("mail", "other"):
            jobs.enqueue("send", queue=queue)
        other = jobs.enqueue("fetch", queue="mail").id
        jobs.pause(task="send")
        assert [job.id for job in jobs.claim("hand", limit=10)] == [other]
        jobs.resume(task="send")
        assert len(jobs.claim("hand", limit=10)) == 2

    def test_a_pause_of_every_queue_holds_also_for_those_that_come_later(self, jobs: Rowcall) -> None:
        @jobs.task
        def send() -> None: ...

        first = send.using(queue="mail").enqueue().id
        paused = jobs.pause("*", actor="ann")
        assert (paused.kind, paused.name, paused.actor) == ("queue", "*", "ann")
        assert jobs.paused() == jobs.stats().paused == [paused]
        second = send.using(queue="new").enqueue().id
        assert jobs.claim("hand", limit=10) == jobs.claim("hand", limit=10, queues=["mail"]) == []
        assert jobs.drain().total == 0
        assert (jobs.resume("mail"), jobs.resume("*"), jobs.resume("*")) == (False, True, False)
        assert [job.id for job in jobs.claim("hand", limit=10)] == [first, second]

    def test_what_was_paused_by_its_name_stays_paused_when_every_queue_is_resumed(self, jobs: Rowcall) -> None:
        jobs.enqueue("send", queue="mail")
        other = jobs.enqueue("send", queue="other").id
        by_name = jobs.pause("mail")
        jobs.pause("*")
        jobs.resume("*")
        assert jobs.paused() == [by_name]
        assert [job.id for job in jobs.claim("hand", limit=10)] == [other]

    def test_no_queue_can_have_the_name_that_stands_for_all(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task
        def send() -> None: ...

        calls: list[Callable[[], object]] = [
            lambda: jobs.enqueue("send", queue="*"),
            lambda: send.using(queue="*"),
            lambda: jobs.task(queue="*")(send),
            lambda: Rowcall(store.url, default_queue="*"),
            lambda: jobs.worker(queues="*"),
            lambda: jobs.drain(queues={"*": 1}),
            lambda: jobs.claim("hand", queues=["*"]),
            lambda: jobs.limit_queue("*", Limit("mail", concurrency=1)),
        ]
        for call in calls:
            with pytest.raises(InvalidOption, match="means every queue"):
                call()
        for steer in (jobs.pause, jobs.resume):
            with pytest.raises(InvalidOption, match="name the queue"):
                steer(task="*")
        assert (jobs.list().jobs, jobs.paused()) == ([], [])

    def test_who_paused_what_and_when(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = jobs.pause("mail", actor="ann")
        clock.advance(60)
        assert jobs.pause("mail", actor="bob") == first  # twice is once
        task = jobs.pause(task="mail")  # a queue and a task may have one name
        assert jobs.paused() == [first, task]
        assert (first.kind, first.name, first.actor) == ("queue", "mail", "ann")
        assert (task.at - first.at).total_seconds() == 60
        assert task.actor
        assert jobs.resume("mail")
        assert jobs.paused() == [task]
        assert jobs.resume("mail") is False

    def test_a_drain_leaves_it_and_comes_to_an_end(self, jobs: Rowcall) -> None:
        ran = []

        @jobs.task
        def note(text: str) -> None:
            ran.append(text)

        jobs.enqueue("note", {"text": "paused"}, queue="mail")
        jobs.enqueue("note", {"text": "ran"})
        jobs.pause("mail")
        assert jobs.drain().total == 1
        assert ran == ["ran"]

    def test_what_expires_expires_anyway(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send", expires_in=60).id
        jobs.pause("default")
        clock.advance(61)
        assert jobs.dequeue("hand") is None
        assert jobs.get(job_id).error_code == "EXPIRED:NOT_STARTED"

    @pytest.mark.concurrency
    def test_what_runs_finishes_and_an_idle_worker_continues_when_it_is_resumed(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        begun, go_on = threading.Semaphore(0), threading.Event()

        @jobs.task
        def held() -> None:
            begun.release()
            assert go_on.wait(30)

        with jobs.worker():
            first = held.enqueue().id
            assert begun.acquire(timeout=30)
            jobs.pause(task="held")
            second = held.enqueue().id
            go_on.set()
            eventually(lambda: jobs.get(first).status is Status.SUCCEEDED, message="what ran finishes")
            jobs.enqueue("nobody_knows_this")
            assert jobs.get(second).status is Status.PENDING
            jobs.resume(task="held")
            eventually(lambda: jobs.get(second).status is Status.SUCCEEDED, message="it continues")

    def test_a_page_of_numbers_says_so(self, jobs: Rowcall) -> None:
        paused = jobs.pause("mail")
        assert jobs.stats().paused == [paused]

    @pytest.mark.parametrize("given", [{}, {"queue": "mail", "task": "send"}, {"queue": ""}, {"task": 7}], ids=str)
    def test_what_names_nothing_is_refused(self, jobs: Rowcall, given: dict[str, str]) -> None:
        for call in (jobs.pause, jobs.resume):
            with pytest.raises(InvalidOption):
                call(**given)
        assert jobs.paused() == []
