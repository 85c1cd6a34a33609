from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rowcall import Retention, Rowcall
from rowcall.drivers.database import Connection
from rowcall.retention import retention_from_text
from rowcall.store.records import Group
from rowcall.store.statement import Plan, Statement, fetch
from rowcall.testing.clock import FakeClock
from rowcall.worker.janitor import FOLD_EVERY_MS, PRUNE_EVERY_MS, Janitor
from rowcall.worker.outage import Outage

DAY = timedelta(days=1)


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


@pytest.fixture
def connection(jobs: Rowcall) -> Iterator[Connection]:
    connection = jobs.database.connect()
    yield connection
    connection.close()


def complete_one(jobs: Rowcall) -> None:
    jobs.enqueue("send")
    jobs.complete(jobs.claim("hand")[0])


def rows_in(jobs: Rowcall, table: str) -> object:
    (count,) = jobs.read(fetch(Statement(f"select count(*) from rowcall_{table}", (), lambda row: row[0])))
    return count


def test_each_duty_in_its_time(jobs: Rowcall, connection: Connection, clock: FakeClock) -> None:
    janitor = Janitor(jobs, Outage())
    complete_one(jobs)
    janitor.round()
    assert (rows_in(jobs, "tally"), rows_in(jobs, "history")) == (1, 0)  # its minute is not over
    clock.advance(60)
    janitor.round()
    assert (rows_in(jobs, "tally"), rows_in(jobs, "history"), rows_in(jobs, "total")) == (0, 1, 1)
    clock.advance(DAY)
    janitor.round()
    assert jobs.stats().total == 0
    clock.advance(60)
    janitor.round()  # that it was deleted is folded as well
    assert (rows_in(jobs, "tally"), rows_in(jobs, "history"), jobs.stats().total) == (0, 1, 0)
    clock.advance(31 * DAY)
    janitor.round()
    assert rows_in(jobs, "history") == 0


def telling(jobs: Rowcall, name: str, pruned: list[str]) -> Callable[[], Plan[list[Group]]]:
    """What a prune asks first, noting who asks."""
    groups = jobs.dialect.finished_groups

    def finished_groups() -> Plan[list[Group]]:
        pruned.append(name)
        return groups()

    return finished_groups


def test_of_two_only_one_does_a_duty(
    jobs: Rowcall, connection: Connection, clock: FakeClock, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned: list[str] = []
    with Rowcall(url, clock=clock) as other:
        for queue, name in ((jobs, "first"), (other, "second")):
            monkeypatch.setattr(queue.dialect, "finished_groups", telling(queue, name, pruned))
        for _ in range(3):
            Janitor(jobs, Outage()).round()
            Janitor(other, Outage()).round()
            clock.advance(PRUNE_EVERY_MS / 1000 - 1)
            Janitor(other, Outage()).round()
            clock.advance(1)
    assert pruned == ["first", "first", "first"]
    assert FOLD_EVERY_MS < PRUNE_EVERY_MS


def test_a_janitor_that_is_stopped_leaves_the_rest_for_later(
    jobs: Rowcall, connection: Connection, clock: FakeClock
) -> None:
    for _ in range(3):
        complete_one(jobs)
    clock.advance(2 * DAY)
    janitor = Janitor(jobs, Outage())
    janitor.stop()
    janitor.round()
    assert jobs.stats().by_status["succeeded"] == 3
    assert rows_in(jobs, "tally") == 3
    clock.advance(60)
    Janitor(jobs, Outage()).round()
    assert jobs.stats().total == 0


def test_what_tasks_declare_is_told_to_the_others(jobs: Rowcall, connection: Connection, url: str) -> None:
    @jobs.task(retention=Retention(succeeded=None))
    def send() -> None: ...

    Janitor(jobs, Outage()).round()
    with Rowcall(url) as other:
        settings = other.read(other.dialect.settings())
    assert retention_from_text(settings["retention of task send"]) == Retention(succeeded=None)
    assert retention_from_text(settings["retention"]) == Retention(succeeded=DAY)


def test_a_setting_that_holds_no_rule_is_passed_over(
    jobs: Rowcall, connection: Connection, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    complete_one(jobs)
    jobs.write(lambda: jobs.dialect.put_setting("retention of task send", "for ever"))
    clock.advance(2 * DAY)
    Janitor(jobs, Outage()).round()
    assert jobs.stats().total == 0
    assert "it holds no rule of retention" in caplog.text
