"""What needs attention is reported: by signed requests to a real server and by jobs, each once, by one of many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest

from rowcall import Alert, Alerts, Finding, InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.declare.declarations import PostAlert
from rowcall.domain.push_signatures import verify_message
from rowcall.overview import alerting
from rowcall.overview.alerting import GIVEN_UP_SECONDS, LEAD_MS, LONGEST_PAUSE_SECONDS, Watcher
from rowcall.overview.attention import thresholds
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store
from tests.http.push.target import SECRET, Reply, TargetServer, json_reply, serving

AFTER, PERIOD = 60, 3600
LEAD_SECONDS = LEAD_MS / 1000
DOWN = Reply(503, b"down for a moment")

Watch = Callable[..., Watcher]


def look(watcher: Watcher) -> list[Alert]:
    return watcher._queue.run(watcher.look())


def sent(target: TargetServer) -> list[tuple[str, str]]:
    return [(one.sent["type"], cast("Any", one.sent)["data"]["finding"]["code"]) for one in target.received]  # type: ignore[misc]


def break_it(jobs: Rowcall, clock: FakeClock) -> None:
    """Let a job wait although no worker is alive."""
    jobs.enqueue("send")
    clock.advance(thresholds.UNSERVED_SECONDS)


def mend_it(jobs: Rowcall) -> None:
    for job in jobs.list(status="pending").jobs:
        jobs.cancel(job)


APPEARED, GONE = ("finding.appeared", "no_worker"), ("finding.gone", "no_worker")


class Watching:
    """The fixtures of both classes."""

    @pytest.fixture
    def target(self) -> Iterator[TargetServer]:
        with serving() as server:
            yield server

    @pytest.fixture
    def options(self, target: TargetServer) -> Alerts:
        return Alerts(
            url=target.url("/hook"), after=AFTER, period=PERIOD, secrets=[SECRET], dashboard="https://ops.example"
        )

    @pytest.fixture
    def watch(self, open_queue: OpenQueue, clock: FakeClock, options: Alerts) -> Watch:
        """Returns another process that watches."""

        def watcher(alerts: Alerts = options) -> Watcher:
            return Watcher(queue_of(open_queue(clock=clock, alerts=alerts)), alerts)

        return watcher


class TestAlertsAreSent(Watching):
    def test_what_appears_and_goes_away(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch
    ) -> None:
        watcher = watch()
        assert look(watcher) == []
        break_it(jobs, clock)
        assert look(watcher) == []
        clock.advance(AFTER)
        (alert,) = look(watcher)
        assert look(watcher) == []
        (received,) = target.received
        assert verify_message([SECRET], received.headers, received.body, clock.wall(), 1) == alert.id
        assert received.sent["type"] == "finding.appeared"
        data = cast("dict[str, Any]", received.sent["data"])
        assert msgspec.convert(data, Alert) == alert
        assert (alert.event, alert.at, alert.link) == ("appeared", clock.now(), "https://ops.example/workers")
        source = alert.source
        assert received.sent["text"] == (
            f"[critical] {source}: no worker is alive: 1 job has been due for 1 min 30 s\n"
            "→ Start a worker: rowcall work app:jobs\nhttps://ops.example/workers"
        )
        mend_it(jobs)
        assert look(watcher) == []
        clock.advance(AFTER)
        (gone,) = look(watcher)
        assert gone.id != alert.id
        assert gone.text == f"[gone] {source}: no worker is alive: 1 job has been due for 1 min 30 s"
        assert sent(target) == [APPEARED, GONE]

    def test_what_comes_and_goes_is_reported_twice_in_a_period(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch
    ) -> None:
        watcher = watch()
        for _ in range(3):  # never for long
            break_it(jobs, clock)
            look(watcher)
            clock.advance(AFTER - 1)
            mend_it(jobs)
            look(watcher)
        assert sent(target) == []
        for _ in range(5):
            break_it(jobs, clock)
            for _ in range(2):
                look(watcher)
                clock.advance(AFTER)
            mend_it(jobs)
            for _ in range(2):
                look(watcher)
                clock.advance(AFTER)
        assert sent(target) == [APPEARED, GONE]
        break_it(jobs, clock)
        look(watcher)
        clock.advance(PERIOD)  # still there
        look(watcher)
        assert sent(target) == [APPEARED, GONE, APPEARED]
        clock.advance(10 * PERIOD)
        look(watcher)
        assert len(target.received) == 3

    def test_a_change_is_reported_after_the_period(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch
    ) -> None:
        watcher = watch()
        jobs.enqueue("send")
        break_it(jobs, clock)
        look(watcher)
        clock.advance(AFTER)
        look(watcher)
        for _ in range(17):
            jobs.enqueue("send")
        clock.advance(PERIOD)
        look(watcher)  # 19 jobs are not ten times as many
        assert sent(target) == [APPEARED]
        jobs.enqueue("send")
        look(watcher)
        look(watcher)
        assert sent(target) == [APPEARED, ("finding.changed", "no_worker")]
        assert "[critical] (changed) " in str(target.received[-1].sent["text"])

    def test_texts_cannot_ping_a_whole_chat(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch
    ) -> None:
        jobs.pause("<!channel>&", actor="ann")
        jobs.enqueue("send", queue="<!channel>&")
        clock.advance(thresholds.PAUSED_SECONDS)
        watcher = watch()
        look(watcher)
        clock.advance(AFTER)
        look(watcher)
        assert "queue &lt;!channel&gt;&amp; was paused" in str(target.received[0].sent["text"])

    def test_a_receiver_that_is_down(self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch) -> None:
        target.replies[:] = [DOWN]
        watcher = watch()
        break_it(jobs, clock)
        look(watcher)
        clock.advance(AFTER)
        look(watcher)
        pauses = []
        for tries in range(1, 5):
            waited = 0
            while len(target.received) == tries:
                clock.advance(10)
                waited += 10
                look(watcher)
            pauses.append(waited)
        assert pauses == sorted(pauses)
        assert pauses[0] <= 10 < 40 <= pauses[-1] <= 80
        mend_it(jobs)
        clock.advance(AFTER)
        look(watcher)
        clock.advance(AFTER)
        look(watcher)
        assert set(sent(target)) == {APPEARED}  # that it is gone waits
        target.replies[:] = [Reply(200)]
        clock.advance(LONGEST_PAUSE_SECONDS)
        look(watcher)
        assert sent(target)[-2:] == [APPEARED, GONE]
        assert len({one.headers["webhook-id"] for one in target.received}) == 2

    def test_a_receiver_that_never_answers(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(alerting, "SEND_SECONDS", 0.1)

        def hang() -> None:
            target.stopping.wait(20)

        target.replies[:] = [Reply(before=hang)]
        watcher = watch()
        break_it(jobs, clock)
        look(watcher)
        clock.advance(AFTER)
        assert len(look(watcher)) == 1
        target.stopping.set()
        target.replies[:] = [Reply(200)]
        clock.advance(LONGEST_PAUSE_SECONDS)
        look(watcher)
        first, second = target.received
        assert first.headers["webhook-id"] == second.headers["webhook-id"]

    def test_one_that_is_refused_does_not_stop_the_others(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch, caplog: pytest.LogCaptureFixture
    ) -> None:
        target.replies[:] = [json_reply({}, 400), Reply(200)]
        watcher = watch()
        jobs.pause("mail", actor="ann")
        jobs.enqueue("send", queue="mail")
        clock.advance(thresholds.PAUSED_SECONDS)
        break_it(jobs, clock)
        look(watcher)
        clock.advance(AFTER)
        look(watcher)
        assert sorted(code for _, code in sent(target)) == ["no_worker", "paused"]
        target.replies[:] = [json_reply({}, 400)]
        clock.advance(LONGEST_PAUSE_SECONDS)
        look(watcher)
        clock.advance(GIVEN_UP_SECONDS)
        look(watcher)
        assert "an alert was not received for 1 d, and is not sent again: PUSH:HTTP_400" in caplog.text
        tries = len(target.received)
        clock.advance(GIVEN_UP_SECONDS)
        look(watcher)
        assert len(target.received) == tries

    def test_a_job_for_each_alert(self, jobs: Rowcall, clock: FakeClock, open_queue: OpenQueue, watch: Watch) -> None:
        watcher = watch(Alerts(task="report", after=0, period=PERIOD))
        break_it(jobs, clock)
        look(watcher)
        got: list[Alert] = []

        @jobs.task
        def report(alert: Alert) -> None:
            got.append(alert)

        mend = [job.id for job in jobs.list(type="send").jobs]
        for job in mend:
            jobs.cancel(job)
        look(watcher)
        assert jobs.drain().succeeded == 2
        assert [(one.event, one.finding.code, type(one.finding)) for one in got] == [
            ("appeared", "no_worker", Finding),
            ("gone", "no_worker", Finding),
        ]

    def test_what_cannot_be_reported_is_refused(self, jobs: Rowcall) -> None:
        @jobs.task
        def report(what: str) -> None: ...

        with pytest.raises(InvalidOption, match=r"task: 'report' must take one argument, alert: Alert; it takes what"):
            Watcher(queue_of(jobs), Alerts(task="report"))
        with pytest.raises(InvalidOption, match=r"alerts is missing: Rowcall\(alerts=Alerts\(url=…\)\) says where"):
            jobs.watch()


class TestOneOfManyWatches(Watching):
    def test_one_leads_and_another_one_takes_over(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch
    ) -> None:
        first, second = watch(), watch()
        break_it(jobs, clock)
        look(first)
        assert look(second) == []
        clock.advance(LEAD_SECONDS - 1)
        look(second)
        assert sent(target) == []
        clock.advance(2)  # the first one has died
        assert len(look(second)) == 1
        assert look(first) == []
        clock.advance(LEAD_SECONDS / 2)
        second._queue.run(second.leave())
        look(watch())  # a restart
        assert sent(target) == [APPEARED]

    @pytest.mark.parametrize("leader_returns", [False, True])
    def test_a_leader_that_dies_after_it_has_sent(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch, leader_returns: bool
    ) -> None:
        class Died(BaseException): ...

        dying, other = watch(), watch()
        declared = dying._queue.declared
        post = declared.post_alert
        assert post is not None

        async def post_and_die(*given: Any) -> None:
            await post(*given)
            raise Died

        declared.post_alert = cast("PostAlert", post_and_die)
        break_it(jobs, clock)
        look(dying)
        clock.advance(AFTER - 1)
        look(dying)
        clock.advance(1)
        with pytest.raises(Died):
            look(dying)
        declared.post_alert = post
        look(other)
        assert len(target.received) == 1  # the claim of the alert is still valid
        clock.advance(LEAD_SECONDS + 1)
        assert look(dying if leader_returns else other) == []
        first, second = target.received
        assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
        clock.advance(LEAD_SECONDS + 1)
        look(other)
        assert len(target.received) == 2

    def test_a_leader_that_is_too_late(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch
    ) -> None:
        slow, other = watch(), watch()
        break_it(jobs, clock)
        look(slow)
        clock.advance(AFTER)
        operation = slow.look()
        effect = next(operation)
        while type(effect).__name__ != "Post":  # it is about to send
            effect = operation.send(effect.run(slow._queue))
        clock.advance(LEAD_SECONDS + 1)
        look(other)
        with suppress(StopIteration):
            while True:
                effect = operation.send(effect.run(slow._queue))
        assert len({one.headers["webhook-id"] for one in target.received}) == 1
        clock.advance(LEAD_SECONDS + 1)
        look(other)
        assert len(target.received) == 2

    def test_a_job_is_enqueued_once_although_the_leader_dies(
        self, jobs: Rowcall, clock: FakeClock, watch: Watch
    ) -> None:
        alerts = Alerts(task="report", after=0, period=PERIOD)
        break_it(jobs, clock)
        for last in range(1, 30):
            operation, watcher = (watcher := watch(alerts)).look(), watcher
            effect = next(operation)
            try:
                for _ in range(last):
                    effect = operation.send(effect.run(watcher._queue))
            except StopIteration:
                break
            operation.close()
            clock.advance(LEAD_SECONDS + 1)
        else:
            raise AssertionError("it never ends")
        assert len(jobs.list(type="report").jobs) == 1

    def test_a_clock_that_is_set(self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch) -> None:
        watcher = watch()
        break_it(jobs, clock)
        look(watcher)
        clock.advance(AFTER)
        target.replies[:] = [DOWN]
        look(watcher)
        target.replies[:] = [Reply(200)]
        clock.jump(-86_400)  # the lead, and the time of the next attempt, are a day ahead
        other = watch()
        look(other)
        assert sent(target) == [APPEARED, APPEARED]
        clock.jump(86_400)
        look(other)
        clock.advance(LEAD_SECONDS)
        look(other)
        assert sent(target) == [APPEARED, APPEARED]

    def test_one_look_of_async_code(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, open_queue: OpenQueue
    ) -> None:
        queue = open_queue(clock=clock, alerts=Alerts(url=target.url(), after=0))
        break_it(jobs, clock)
        (alert,) = asyncio.run(queue.awatch())
        assert queue.watch() == []
        assert sent(target) == [APPEARED]
        assert alert.finding.code == "no_worker"

    def test_a_worker_watches(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, open_queue: OpenQueue
    ) -> None:
        queue = open_queue(clock=clock, alerts=Alerts(url=target.url(), after=0))
        jobs.pause("mail", actor="ann")
        jobs.enqueue("send", queue="mail")
        clock.advance(thresholds.PAUSED_SECONDS)
        queue.drain()
        assert sent(target) == []  # a script is not a service
        with queue.worker():
            eventually(lambda: len(target.received) == 1, message="the worker has sent it")
        mend_it(jobs)
        (gone,) = open_queue(clock=clock, alerts=Alerts(url=target.url(), after=0)).watch()
        assert gone.event == "gone"  # the worker no longer leads

    @pytest.mark.concurrency
    def test_many_at_once(
        self, jobs: Rowcall, clock: FakeClock, target: TargetServer, watch: Watch, store: Store
    ) -> None:
        watchers = [watch(Alerts(url=target.url(), after=0)) for _ in range(4)]
        break_it(jobs, clock)
        barrier = threading.Barrier(len(watchers))

        def race(watcher: Watcher) -> None:
            barrier.wait()
            for _ in range(3):
                look(watcher)

        threads = [threading.Thread(target=race, args=(one,)) for one in watchers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sent(target) == [APPEARED]
