from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rowcall import Retention, Rowcall, Status, StoreUnavailable
from rowcall.app import queue_of
from rowcall.domain.retention import retention_from_text
from rowcall.drivers.database import Connection
from rowcall.operations.effects import Read, Write
from rowcall.operations.retention import rules_of
from rowcall.store.queries.counts import FINISHED_GROUPS, PUT_SETTING, SETTINGS
from rowcall.store.statement import Plan, Query, Statement, fetch
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.outage import Outage
from rowcall.worker.pace import FOLD_EVERY_MS, PRUNE_EVERY_MS
from rowcall.worker.service import Background
from rowcall.worker.upkeep import pruning as pruning_module
from rowcall.worker.upkeep.pruning import PruningDuties

DAY = timedelta(days=1)
ENDED = "history where outcome <> 'sampled'"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def jobs(url: str, clock: FakeClock) -> Iterator[Rowcall]:
    with Rowcall(url, clock=clock, retention=Retention(succeeded=DAY)) as jobs:
        jobs.migrate()
        yield jobs


def nothing() -> None: ...


def complete_one(jobs: Rowcall) -> None:
    jobs.enqueue("send")
    jobs.complete(jobs.claim("hand")[0])


def rows_in(jobs: Rowcall, table: str) -> object:
    (count,) = queue_of(jobs).run(
        Read(fetch(Statement(f"select count(*) from rowcall_{table}", (), lambda row: row[0])))
    )
    return count


def test_each_duty_in_its_time(jobs: Rowcall, clock: FakeClock) -> None:
    pruning = PruningDuties(queue_of(jobs))
    complete_one(jobs)
    pruning.round()
    assert (rows_in(jobs, "tally"), rows_in(jobs, ENDED), rows_in(jobs, "total")) == (0, 1, 1)
    clock.advance(30)
    complete_one(jobs)
    pruning.round()
    assert (rows_in(jobs, "tally"), rows_in(jobs, ENDED)) == (0, 2)  # their minute is not over
    clock.advance(60)
    complete_one(jobs)
    pruning.round()
    assert (rows_in(jobs, "tally"), rows_in(jobs, ENDED)) == (0, 2)
    clock.advance(1.001 * DAY)
    pruning.round()
    assert jobs.stats().total == 0
    clock.advance(60)
    pruning.round()  # that it was deleted is folded as well
    assert (rows_in(jobs, "tally"), rows_in(jobs, ENDED), jobs.stats().total) == (0, 1, 0)
    clock.advance(31 * DAY)
    pruning.round()
    assert rows_in(jobs, ENDED) == 0
    assert rows_in(jobs, "history where outcome = 'sampled'") == 1  # the others are pruned


def recording(jobs: Rowcall, name: str, pruned: list[str]) -> Callable[..., Plan[list[object]]]:
    """Return an `ask` that notes who asks what a prune asks first."""
    ask = queue_of(jobs).dialect.ask

    def noted(query: Query[object], *values: object) -> Plan[list[object]]:
        if query is FINISHED_GROUPS:
            pruned.append(name)
        return ask(query, *values)

    return noted


def test_of_two_only_one_does_a_duty(
    jobs: Rowcall, clock: FakeClock, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned: list[str] = []
    with Rowcall(url, clock=clock) as other:
        for queue, name in ((jobs, "first"), (other, "second")):
            monkeypatch.setattr(queue_of(queue).dialect, "ask", recording(queue, name, pruned))
        for _ in range(3):
            PruningDuties(queue_of(jobs)).round()
            PruningDuties(queue_of(other)).round()
            clock.advance(PRUNE_EVERY_MS / 1000 - 1)
            PruningDuties(queue_of(other)).round()
            clock.advance(1)
    assert pruned == ["first", "first", "first"]
    assert FOLD_EVERY_MS < PRUNE_EVERY_MS


def test_a_janitor_that_is_stopped_leaves_the_rest_for_later(jobs: Rowcall, clock: FakeClock) -> None:
    for _ in range(3):
        complete_one(jobs)
    clock.advance(2 * DAY)
    PruningDuties(queue_of(jobs)).round(stopping=lambda: True)
    assert jobs.stats().by_status["succeeded"] == 3
    assert rows_in(jobs, "tally") == 3
    clock.advance(60)
    PruningDuties(queue_of(jobs)).round()
    assert jobs.stats().total == 0


def test_rules_that_tasks_declare_are_published(jobs: Rowcall, url: str) -> None:
    @jobs.task(retention=Retention(succeeded=None))
    def send() -> None: ...

    PruningDuties(queue_of(jobs)).round()
    with Rowcall(url) as other:
        settings = dict(queue_of(other).run(Read(queue_of(other).dialect.ask(SETTINGS))))
    assert retention_from_text(settings["retention of task send"]) == Retention(succeeded=None)
    assert retention_from_text(settings["retention"]) == Retention(succeeded=DAY)


def test_a_setting_that_holds_no_rule_is_passed_over(
    jobs: Rowcall, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    complete_one(jobs)
    queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.ask(PUT_SETTING, "retention of task send", "for ever")))
    clock.advance(2 * DAY)
    PruningDuties(queue_of(jobs)).round()
    assert jobs.stats().total == 0
    assert "it is not a retention rule" in caplog.text


def test_a_rule_that_is_no_longer_declared_is_withdrawn_by_a_worker_that_declares_the_task(url: str) -> None:
    with Rowcall(url, retention=Retention(succeeded=60)) as first:
        first.task(name="send", retention=Retention(succeeded=1))(nothing)
        PruningDuties(queue_of(first)).round()
    with Rowcall(url) as stranger:
        assert (
            queue_of(stranger).run(Read(rules_of(queue_of(stranger)))).keep_seconds(Status.SUCCEEDED, "default", "send")
            == 1
        )
        assert (
            queue_of(stranger)
            .run(Read(rules_of(queue_of(stranger))))
            .keep_seconds(Status.SUCCEEDED, "default", "other")
            == 60
        )
    with Rowcall(url) as second:
        second.task(name="send")(nothing)
        assert (
            queue_of(second).run(Read(rules_of(queue_of(second)))).keep_seconds(Status.SUCCEEDED, "default", "send")
            == 30 * 86_400
        )
        PruningDuties(queue_of(second)).round()
        assert "retention of task send" not in dict(queue_of(second).run(Read(queue_of(second).dialect.ask(SETTINGS))))


def test_a_janitor_outlives_a_database_that_is_away(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pruning_module, "UPKEEP_SECONDS", 0.01)
    away = threading.Event()
    connect, connected = queue_of(jobs).database.connect, threading.Event()

    def connect_unless_away() -> Connection:
        if not away.is_set():
            away.set()
            raise StoreUnavailable("the folder is gone")
        connected.set()
        return connect()

    monkeypatch.setattr(queue_of(jobs).database, "connect", connect_unless_away)
    thread = Background(
        "pruning", PruningDuties(queue_of(jobs)).run, queue_of(jobs).clock, outage=Outage(queue_of(jobs).clock)
    )
    thread.start()
    assert connected.wait(20)
    thread.stop()
    thread.wait()
    assert "the folder is gone" in caplog.text


def test_where_there_is_nothing_to_do_one_question_is_asked(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    pruning = PruningDuties(queue_of(jobs))
    pruning.round()
    asked: list[object] = []
    read = queue_of(jobs).database.read

    def noted(plan: Plan[object], *, snapshot: bool, seconds: float | None) -> object:
        asked.append(plan)
        return read(plan, snapshot=snapshot, seconds=seconds)

    monkeypatch.setattr(queue_of(jobs).database, "read", noted)
    monkeypatch.setattr(queue_of(jobs).database, "connect", lambda: pytest.fail("a connection was made"))
    monkeypatch.setattr(queue_of(jobs).database, "write", lambda *_: pytest.fail("something was written"))
    pruning.round()
    assert len(asked) == 1


def test_requests_for_stacks_that_no_one_removed_are_dropped(jobs: Rowcall, clock: FakeClock) -> None:
    queue = queue_of(jobs)
    fresh, old = (f"stack:1:1:{round((clock.wall() - age) * 1000)}:ab" for age in (5, 7200))
    for request in (fresh, old):
        queue.run(Write(queue.dialect.ask, PUT_SETTING, request, "null"))
    PruningDuties(queue).round()
    names = dict(queue.run(Read(queue.dialect.ask(SETTINGS))))
    assert (fresh in names, old in names) == (True, False)
