"""Jobs come in: by function, by name, in bulk, from sync and from async code."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowcall import DuplicateJob, InvalidArguments, InvalidOption, Job, Rowcall, TooLarge
from rowcall.task import Task

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[Rowcall]:
    with Rowcall(path) as jobs:
        yield jobs


@pytest.fixture
def send(jobs: Rowcall) -> Task[..., None]:
    @jobs.task
    def send(to: str, subject: str = "hi") -> None: ...

    return send


def test_by_function(jobs: Rowcall, send: Task[..., None]) -> None:
    job = send.enqueue("a", subject="b")
    assert (job.id, job.type, job.payload) == (1, "send", {"to": "a", "subject": "b"})
    assert jobs.get(job.id) == job


def test_by_name_of_a_known_task_the_arguments_are_checked(jobs: Rowcall, send: Task[..., None]) -> None:
    job = jobs.enqueue("send", {"to": "a"})
    assert jobs.get(job.id).payload == {"to": "a"}
    with pytest.raises(InvalidArguments, match="missing argument 'to'"):
        jobs.enqueue("send")
    with pytest.raises(InvalidArguments, match="argument 'to': expected `str`, got `int`"):
        jobs.enqueue("send", {"to": 5})
    assert jobs.stats().total == 1


def test_by_name_of_an_unknown_task_any_json_goes(jobs: Rowcall) -> None:
    assert jobs.enqueue("elsewhere").payload == {}
    assert jobs.enqueue("elsewhere", {"a": [1, None]}).payload == {"a": [1, None]}


@pytest.mark.parametrize("arguments", [[], [1], "", "to", 0, 5, False, ("to", "a")])
@pytest.mark.parametrize("name", ["send", "elsewhere"])
def test_arguments_by_name_are_a_dict(jobs: Rowcall, send: Task[..., None], name: str, arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match="must be a dict"):
        jobs.enqueue(name, arguments)
    assert jobs.list().jobs == []


@pytest.mark.parametrize("name", ["", None, 5, "x" * 201, "a\0b", "\ud800", ["send"], {"a": 1}])
def test_a_name_that_is_none_is_refused(jobs: Rowcall, name: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^task must "):
        jobs.enqueue(name)
    assert jobs.list().jobs == []


def test_in_bulk(jobs: Rowcall, send: Task[..., None]) -> None:
    written = send.using(priority=3, tags=["x"]).enqueue_many({"to": str(number)} for number in range(500))
    assert [job.id for job in written] == list(range(1, 501))
    assert [job.payload for job in written] == [{"to": str(number)} for number in range(500)]
    assert [jobs.get(job.id) for job in written[::50]] == written[::50]
    assert len(jobs.list(tag="x", limit=1000).jobs) == 500


def test_in_bulk_of_none(jobs: Rowcall, send: Task[..., None], path: Path) -> None:
    assert send.enqueue_many([]) == []
    assert asyncio.run(send.aenqueue_many([])) == []
    assert jobs.list().jobs == []


def test_a_name_that_resembles_a_declared_one_is_accepted_with_one_warning(
    jobs: Rowcall, send: Task[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("sned", "sned", "elsewhere", "send"):
        jobs.enqueue(name, {"to": "a"})
    asyncio.run(jobs.aenqueue("sendd"))
    assert [record.getMessage() for record in caplog.records if record.name == "rowcall"] == [
        f"enqueued task '{name}', which this process does not declare (did you mean 'send'?)"
        for name in ("sned", "sendd")
    ]
    assert jobs.stats().total == 5


def test_every_error_of_a_bulk_says_which_row(jobs: Rowcall, send: Task[..., None], path: Path) -> None:
    keyed = [send.using(key=key, on_duplicate="raise").bind("a") for key in "abc"]
    send.enqueue_many([keyed[1]])
    with pytest.raises(DuplicateJob, match=r"^row 1: send: job 1 already has the key 'b'") as refused:
        send.enqueue_many(keyed)
    assert refused.value.row == 1
    with pytest.raises(InvalidOption, match="rows 0 and 2 have the same key 'c'"):
        send.enqueue_many([keyed[2], keyed[0], keyed[2]])

    @jobs.task(key=lambda to: to)
    def unique(to: str) -> None: ...

    with pytest.raises(InvalidOption, match=r"^row 1: key"):
        unique.enqueue_many([{"to": "a"}, {"to": ""}])
    with pytest.raises(InvalidOption, match=r"^row 1: rows must be calls of 'send'"):
        send.enqueue_many([{"to": "a"}, unique.bind("b")])
    assert jobs.stats().total == 1
    with Rowcall(path, payload_limit=1024) as small:
        resend = small.task(name="send")(lambda to: None)
        for row in ({"to": "x" * 2000}, resend.using(key="x").bind("x" * 2000)):
            with pytest.raises(TooLarge, match=r"^row 1: send: .* bytes of JSON"):
                resend.enqueue_many([{"to": "a"}, row])


def test_a_bulk_is_all_or_nothing(jobs: Rowcall, send: Task[..., None]) -> None:
    rows: list[dict[str, object]] = [{"to": "a"}, {"to": "b"}, {"to": 5}]
    for wrong in (rows, [{"to": "a"}, {}], [{"to": "a"}, {"cc": "a"}]):
        with pytest.raises(InvalidArguments, match=f"row {len(wrong) - 1}: "):
            send.enqueue_many(wrong)
    with pytest.raises(InvalidArguments, match=r"^row 1: send: the arguments must be a dict .*, got 'b'"):
        send.enqueue_many([{"to": "a"}, "b"])  # type: ignore[list-item]
    with pytest.raises(InvalidArguments, match=r"^row 2: send: ") as wrong_row:
        send.enqueue_many([send.bind("a"), {"to": "b"}, {"to": 5}])
    assert wrong_row.value.row == 2
    with pytest.raises(InvalidArguments, match=r"^send: "):
        send.enqueue_many([{"to": 5}])
    assert jobs.list().jobs == []


def test_bulk_and_single_take_turns_with_the_ids(jobs: Rowcall, send: Task[..., None]) -> None:
    assert send.enqueue("a", "b").id == 1
    assert [job.id for job in send.enqueue_many([{"to": "a"}] * 3)] == [2, 3, 4]
    assert send.enqueue("a", "b").id == 5


def test_a_bulk_of_text_beyond_ascii(jobs: Rowcall, send: Task[..., None]) -> None:
    texts = ["ä€😀", '"\\', "\u2028", "</script>", "'; drop table rowcall_job; --", "a" * 100_000]
    for job, text in zip(send.enqueue_many([{"to": text} for text in texts]), texts, strict=True):
        assert jobs.get(job.id).payload == {"to": text}
        assert jobs.get(send.enqueue(text, "").id).payload == {"to": text, "subject": ""}


def test_every_way_has_an_async_twin(jobs: Rowcall, send: Task[..., None]) -> None:
    async def enqueue() -> list[Job]:
        return [
            await send.aenqueue("a", subject="b"),
            await send.using(priority=3).aenqueue("a", subject="b"),
            *await send.aenqueue_many([{"to": "a"}, {"to": "b"}]),
            await jobs.aenqueue("send", {"to": "a"}, queue="mail"),
            await jobs.aenqueue("elsewhere"),
        ]

    written = asyncio.run(enqueue())
    assert [job.id for job in written] == [1, 2, 3, 4, 5, 6]
    assert [jobs.get(job.id) for job in written] == written


def test_async_code_is_refused_where_the_call_was_made(jobs: Rowcall, send: Task[..., None]) -> None:
    async def enqueue() -> None:
        with pytest.raises(InvalidArguments):
            await send.aenqueue(5, "x")
        with pytest.raises(InvalidArguments):
            await send.aenqueue_many([{}])
        with pytest.raises(InvalidOption):
            await jobs.aenqueue("send", {"to": "a"}, delay=-1)

    asyncio.run(enqueue())
    assert jobs.list().jobs == []


def test_several_event_loops_may_use_one_queue(jobs: Rowcall) -> None:
    for number in range(1, 4):
        assert asyncio.run(jobs.aenqueue("task")).id == number


def test_it_is_durable_when_it_returns(jobs: Rowcall, path: Path) -> None:
    job = jobs.enqueue("task", {"a": 1})
    with closing(sqlite3.connect(path)) as somebody_else:
        row = somebody_else.execute("select type, payload, status from rowcall_job where id = ?", [job.id]).fetchone()
    assert row == ("task", '{"a":1}', "pending")


def test_tags_are_found_again(jobs: Rowcall) -> None:
    first = jobs.enqueue("a", tags=["red", "blue"])
    second = jobs.enqueue("b", tags=["red"])
    jobs.enqueue("c")
    assert jobs.list(tag="red").jobs == [second, first]
    assert jobs.list(tag="blue").jobs == [first]
    assert jobs.list(tag="green").jobs == []


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(names, names), min_size=5, max_size=20))
def test_names_of_all_kinds_are_found_and_claimed(pairs: list[tuple[str, str]]) -> None:
    with Rowcall("sqlite:///:memory:") as jobs:
        written = [jobs.enqueue(task, queue=queue, tags=[queue]) for queue, task in pairs]
        for job in written:
            assert job in jobs.list(queue=job.queue, type=job.type, tag=job.queue).jobs
        claimed = jobs.claim("me", limit=len(pairs))
        assert sorted(job.id for job in claimed) == sorted(job.id for job in written)
        assert {(job.queue, job.type) for job in claimed} == set(pairs)


def test_an_event_loop_that_is_gone_before_the_commit_harms_no_other_job(jobs: Rowcall, path: Path) -> None:
    jobs.migrate()

    async def give_up_soon() -> None:
        await asyncio.wait_for(jobs.aenqueue("late"), 0.05)

    with closing(sqlite3.connect(path, isolation_level=None)) as somebody_else:
        somebody_else.execute("begin immediate")
        with pytest.raises(TimeoutError):
            asyncio.run(give_up_soon())
        somebody_else.execute("rollback")
    assert jobs.enqueue("after").type == "after"
    assert {job.type for job in jobs.list().jobs} <= {"late", "after"}
    assert asyncio.run(jobs.aenqueue("again")).type == "again"
