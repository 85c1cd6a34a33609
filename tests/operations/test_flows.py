"""Keys, chains, blockers and flows that are wrong: each is refused where it was said, and nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowcall import Context, InvalidArguments, InvalidOption, Rowcall, WrongState, current
from rowcall.app import queue_of
from rowcall.operations.enqueue import bind
from rowcall.testing.fake_clock import FakeClock


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/app.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def jobs(url: str) -> Iterator[Rowcall]:
    with Rowcall(url, clock=FakeClock()) as made:
        made.migrate()
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "file.db") as made:
        made.migrate()
        yield made


class TestKeys:
    @pytest.mark.parametrize("key", ["", "x" * 513, "a\0b", "\ud800", 5, b"key", ["a"], "😀" * 460])
    def test_a_key_that_is_none(self, jobs: Rowcall, key: Any) -> None:
        with pytest.raises(InvalidOption, match=r"^key must "):
            jobs.enqueue("send", key=key)
        assert jobs.list().jobs == []

    @pytest.mark.parametrize(
        "options",
        [
            {"key": "k", "key_scope": "all"},
            {"key": "k", "key_window": 0},
            {"key": "k", "key_window": -1},
            {"key": "k", "key_window": timedelta(seconds=-1)},
            {"key": "k", "key_window": "60"},
            {"key": "k", "on_duplicate": "ignore"},
            {"key_scope": "any"},
            {"key_window": 60},
            {"on_duplicate": "raise"},
        ],
        ids=str,
    )
    def test_what_says_nothing_about_a_key(self, file: Rowcall, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidOption):
            file.enqueue("send", **options)
        assert file.list().jobs == []

    def test_a_task_whose_options_have_no_key(self, file: Rowcall) -> None:
        with pytest.raises(InvalidOption, match="has no effect without a key"):

            @file.task(on_duplicate="replace")
            def send() -> None: ...

    def test_a_function_that_takes_other_arguments(self, file: Rowcall) -> None:
        @file.task(key=lambda order_id, region: f"{order_id}{region}")
        def send(order_id: int, region: str = "eu") -> None: ...

        with pytest.raises(InvalidOption, match=r"key: the function of 'send' .* \(order_id\).*region"):
            send.enqueue(1)
        assert send.enqueue(1, region="us").key == "1us"

    def test_a_replacement_that_waits_for_others(self, file: Rowcall) -> None:
        blocker = file.enqueue("blocker")
        with pytest.raises(InvalidOption, match="after"):
            file.enqueue("send", key="k", on_duplicate="replace", after=blocker)


class TestBlockers:
    @pytest.mark.parametrize("after", ["1", 0, -1, 1.5, True, 2**63, [None], [[1]], {"a"}, print, b"1"])
    def test_what_is_no_job(self, file: Rowcall, after: Any) -> None:
        with pytest.raises(InvalidOption, match=r"^after must be jobs, chains or ids"):
            file.enqueue("send", after=after)
        with pytest.raises(InvalidOption, match=r"^after must be jobs, chains or ids"):
            file.flow().add(bind(queue_of(file), "send", (), {}), after=after)
        assert file.list().jobs == []

    @pytest.mark.parametrize("wrong", ["retry", "", 5])
    def test_a_wish_for_failures_that_is_none(self, file: Rowcall, wrong: Any) -> None:
        with pytest.raises(InvalidOption, match="on_blocker_failure"):
            file.enqueue("send", on_blocker_failure=wrong)

    def test_itself(self, jobs: Rowcall) -> None:
        """The id that it is going to have is not there yet."""
        first = jobs.enqueue("send")
        with pytest.raises(InvalidOption, match="no such job"):
            jobs.enqueue("send", after=first.id + 1)
        assert len(jobs.list().jobs) == 1

    def test_a_job_of_another_database(self, jobs: Rowcall, file: Rowcall) -> None:
        """There is a job of that id here as well, and it is another one."""
        file.enqueue("send")
        there = file.enqueue("send")
        chain = file.start_chain([bind(queue_of(file), "send", (), {})])
        for _ in range(3):
            jobs.enqueue("send")
        for wrong in (there, chain, chain.steps[0]):
            with pytest.raises(InvalidOption, match=r"no such .* it was deleted, or it is in another database"):
                jobs.enqueue("send", after=wrong)
        assert len(jobs.list().jobs) == 3

    def test_a_job_that_was_rolled_back(self, file: Rowcall, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "file.db")) as connection:
            gone = file.enqueue("send", connection=connection)
            connection.rollback()
            with pytest.raises(InvalidOption, match="no such job"):
                file.enqueue("send", after=gone, connection=connection)

    def test_a_circle_through_two_open_transactions(self, postgres_url: str) -> None:
        """Neither sees the other's job, and an id cannot be guessed: what is not committed is not there."""
        with (
            Rowcall(postgres_url) as jobs,
            psycopg.connect(postgres_url) as one,
            psycopg.connect(postgres_url) as other,
        ):
            first, second = (jobs.enqueue("send", connection=connection) for connection in (one, other))
            for connection, beyond in ((one, second), (other, first)):
                with pytest.raises(InvalidOption, match="no such job"):
                    jobs.enqueue("send", after=beyond, connection=connection)
                assert connection.execute("select 1").fetchone() == (1,)
            one.commit()
            later = jobs.enqueue("send", after=first, connection=other)
            with pytest.raises(InvalidOption, match="no such job"):
                jobs.enqueue("send", after=[first, later.id], connection=one)
            assert later.id > first.id
            other.commit()

    def test_a_circle_by_plain_sql(self, jobs: Rowcall, url: str) -> None:
        first = jobs.enqueue("send")
        second = jobs.enqueue("send", after=first)
        insert = f"insert into rowcall_edge (blocker_id, job_id, position) values ({second.id}, {first.id}, 0)"
        with pytest.raises(Exception, match="a_blocker_comes_first"):
            execute(url, insert)


class TestFlows:
    def test_a_node_of_another_flow(self, file: Rowcall) -> None:
        part = bind(queue_of(file), "send", (), {})
        other = file.flow().add(part)
        with pytest.raises(InvalidOption, match="of another flow"):
            file.flow().add(part, after=other)

    def test_a_node_in_after_of_a_task(self, file: Rowcall) -> None:
        node: Any = file.flow().add(bind(queue_of(file), "send", (), {}))
        with pytest.raises(InvalidOption, match="must be jobs, chains or ids"):
            file.enqueue("send", after=node)

    def test_a_flow_that_is_enqueued_again(self, file: Rowcall) -> None:
        flow = file.flow()
        flow.add(bind(queue_of(file), "send", (), {}))
        flow.enqueue()
        for again in (flow.enqueue, lambda: flow.add(bind(queue_of(file), "send", (), {})), lambda: flow.add_chain([])):
            with pytest.raises(InvalidOption):
                again()
        assert len(file.list().jobs) == 1

    def test_a_flow_that_was_refused_can_be_enqueued_when_the_cause_is_gone(self, file: Rowcall) -> None:
        flow = file.flow()
        flow.add(bind(queue_of(file), "send", (), {}), after=1)
        with pytest.raises(InvalidOption, match="no such job 1"):
            flow.enqueue()
        file.enqueue("blocker")
        assert [job.status for job in flow.enqueue()] == ["blocked"]

    def test_what_is_not_bound(self, file: Rowcall) -> None:
        @file.task
        def send(to: str) -> None: ...

        wrong: Any
        for wrong in (send, "send", send.using(priority=1), None, print):
            with pytest.raises(InvalidOption, match=r"task\.bind"):
                file.flow().add(wrong)
            with pytest.raises(InvalidOption, match=r"task\.bind"):
                file.start_chain([send.bind("a"), wrong])
        with pytest.raises(InvalidArguments):
            send.bind()  # type: ignore[call-arg]
        with pytest.raises(InvalidArguments):
            send.bind(5)  # type: ignore[arg-type]
        assert file.list().jobs == []

    def test_what_is_bound_with_a_key_or_on_a_connection(self, file: Rowcall) -> None:
        @file.task
        def send() -> None: ...

        with pytest.raises(InvalidOption, match="cannot have a key"):
            file.start_chain([send.using(key="k").bind()])
        with pytest.raises(InvalidOption, match="connection cannot be bound to a call; pass it to"):
            send.using(connection=object()).bind()


class TestGoingOn:
    def test_outside_a_handler(self) -> None:
        with pytest.raises(RuntimeError, match="outside a handler"):
            current().continue_with("next")

    def run(self, jobs: Rowcall, body: Any) -> None:
        """A handler that keeps its assertions for the test."""
        troubles: list[BaseException] = []

        @jobs.task(max_attempts=1)
        def begin(ctx: Context) -> None:
            try:
                body(ctx)
            except BaseException as error:
                troubles.append(error)
                raise

        begin.enqueue()
        jobs.drain()
        for trouble in troubles:
            raise trouble

    def test_twice(self, jobs: Rowcall) -> None:
        def body(ctx: Context) -> None:
            ctx.continue_with("next")
            with pytest.raises(WrongState, match="cannot continue"):
                ctx.continue_with("other")

        self.run(jobs, body)
        assert [job.type for job in jobs.list().jobs] == ["next", "begin"]

    def test_after_the_handler_has_ended(self, jobs: Rowcall) -> None:
        kept: list[Context] = []
        self.run(jobs, kept.append)
        with pytest.raises(RuntimeError, match="after the handler had ended"):
            kept[0].continue_with("next")
        assert [job.type for job in jobs.list().jobs] == ["begin"]

    def test_after_a_completion(self, file: Rowcall, tmp_path: Path) -> None:
        def body(ctx: Context) -> None:
            with closing(sqlite3.connect(tmp_path / "file.db")) as connection:
                ctx.complete(connection=connection)
                with pytest.raises(WrongState, match="cannot continue"):
                    ctx.continue_with("next")
                connection.commit()

        self.run(file, body)
        assert [job.type for job in file.list().jobs] == ["begin"]

    def test_with_what_cannot_be_enqueued(self, file: Rowcall, tmp_path: Path) -> None:
        @file.task
        def send(to: str) -> None: ...

        def body(ctx: Context) -> None:
            wrong: Any
            for wrong in (None, 5, print, ""):
                with pytest.raises(InvalidOption):
                    ctx.continue_with(wrong)
            with pytest.raises(InvalidArguments):
                ctx.continue_with(send)  # type: ignore[call-overload]
            with pytest.raises(InvalidArguments):
                ctx.continue_with(send, 5)  # type: ignore[call-overload]
            with pytest.raises(InvalidOption, match="by name"):
                ctx.continue_with("send", "a")  # type: ignore[call-overload]
            with pytest.raises(InvalidOption, match="cannot have a key"):
                ctx.continue_with(send.using(key="k"), "a")
            with pytest.raises(InvalidOption, match="bound to its arguments already"):
                ctx.continue_with(send.bind("a"), "b")  # type: ignore[call-overload]

        self.run(file, body)
        assert [job.type for job in file.list().jobs] == ["begin"]


def execute(url: str, sql: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(sql)
    else:
        with psycopg.connect(url) as raw:
            raw.execute(sql.encode())


def test_wrong_steps_name_the_parameter(jobs: Rowcall) -> None:
    step = bind(queue_of(jobs), "send", (), {})
    for wrong in (3, step, [3], "send"):
        with pytest.raises(InvalidOption, match=r"^steps must be a list of tasks that are bound to their arguments"):
            jobs.start_chain(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match=r"^calls must be a list of tasks that are bound to their arguments"):
            jobs.flow().add_chain(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"^steps must have at least one step$"):
        jobs.start_chain([])
