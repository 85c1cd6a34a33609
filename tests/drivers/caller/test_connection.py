"""Each kind of connection in each kind of transaction: the job comes with the commit, and never without."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rowcall import InvalidArguments, InvalidOption, Rowcall, SchemaMismatch
from tests.drivers.caller.callers.base import Caller, Undo
from tests.drivers.caller.queue_site import Case


def test_commit(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        job = await mine.enqueue(case.send(mine, priority=3, delay=60, tags=["a"], expires_in=90), "ä % $1 ?1 'b'")
        assert case.written == []
        await mine.commit()
        assert case.written == [job]

    case.run(scenario)
    assert case.notes == 1


def test_rollback(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.enqueue(case.send(mine), "a")
        await mine.enqueue_many(case.send(mine), [{"to": "b"}, {"to": "c"}])
        await mine.rollback()
        await mine.begin()
        await mine.enqueue(case.send(mine), "d")
        await mine.commit()

    case.run(scenario)
    assert case.notes == 0
    assert case.sent_to == ["d"]


def test_rollback_of_nothing_but_the_enqueue(case: Case) -> None:
    """The enqueue is the first statement of the transaction."""

    async def scenario(mine: Caller) -> None:
        for enqueue in (
            lambda: mine.enqueue(case.send(mine), "a"),
            lambda: mine.enqueue_many(case.send(mine), [{"to": "b"}]),
        ):
            await mine.begin()
            await enqueue()
            await mine.rollback()

    case.run(scenario)
    assert case.written == []


def test_savepoint_rollback(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.enqueue(case.send(mine), "kept")
        with contextlib.suppress(Undo):
            async with mine.savepoint():
                await mine.enqueue(case.send(mine), "undone")
                await mine.enqueue_many(case.send(mine), [{"to": "undone"}])
                raise Undo
        async with mine.savepoint():
            await mine.enqueue(case.send(mine), "again")
        assert case.written == []
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["kept", "again"]
    assert case.notes == 1


def test_select_before_enqueue(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        for end, to in ((mine.rollback, "a"), (mine.commit, "b")):
            await mine.begin()
            assert await mine.execute("select count(*) from mine where id = -1") == [(0,)]
            await mine.enqueue(case.send(mine), to)
            await end()

    case.run(scenario)
    assert case.sent_to == ["b"]


def test_bulk_of_a_thousand(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        made = await mine.enqueue_many(case.send(mine, tags=["bulk"]), [{"to": str(n)} for n in range(1000)])
        assert case.written == []
        await mine.commit()
        assert case.written == made

    case.run(scenario)
    assert case.sent_to == [str(n) for n in range(1000)]


def test_by_name(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        for end, to in ((mine.rollback, "a"), (mine.commit, "b")):
            await mine.begin()
            await mine.enqueue_by_name(case.jobs, "send", {"to": to}, case.queue)
            await mine.enqueue_by_name(case.jobs, "not_declared_here", {"to": to}, case.queue)
            await end()

    case.run(scenario)
    assert [(job.type, job.payload) for job in case.written] == [
        ("send", {"to": "b"}),
        ("not_declared_here", {"to": "b"}),
    ]


Refused = Callable[[Case, Caller], Coroutine[Any, Any, object]]


async def wrong_arguments(case: Case, mine: Caller) -> None:
    with pytest.raises(InvalidArguments):
        await mine.enqueue(case.send(mine), 5)
    for text in ("a\0b", "\ud800"):
        with pytest.raises(InvalidArguments):
            await mine.enqueue(case.send(mine), text)
    with pytest.raises(InvalidArguments):
        await mine.enqueue_by_name(case.jobs, "x", {"a": object()}, case.queue)
    with pytest.raises(InvalidArguments, match="row 1"):
        await mine.enqueue_many(case.send(mine), [{"to": "a"}, {"to": 5}])


async def wrong_option(case: Case, mine: Caller) -> None:
    wrong: list[dict[str, Any]] = [{"delay": -1}, {"priority": 2**31}, {"tags": ["x" * 5000]}]
    for options in wrong:
        with pytest.raises(InvalidOption, match=next(iter(options))):
            await mine.enqueue(case.send(mine, **options), "a")
    for name in ("", "x" * 500):
        with pytest.raises(InvalidOption, match="task must have"):
            await mine.enqueue_by_name(case.jobs, name, {}, case.queue)


async def wrong_database(case: Case, mine: Caller) -> None:
    for _ in range(2):
        with pytest.raises(InvalidOption, match=r"connection .*this queue is in "):
            await mine.enqueue(case.elsewhere.send.using(connection=mine.connection), "a")


async def missing_tables(case: Case, mine: Caller) -> None:
    with (
        Rowcall(case.site.url, table_prefix="missing_", auto_migrate=False) as jobs,
        pytest.raises(SchemaMismatch, match="rowcall migrate"),
    ):
        await mine.enqueue_by_name(jobs, "send", {"to": "a"}, case.queue)


@pytest.mark.parametrize("refused", [wrong_arguments, wrong_option, wrong_database, missing_tables])
def test_refused(case: Case, refused: Refused) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await refused(case, mine)
        assert await mine.execute("select 1") == [(1,)]
        await mine.enqueue(case.send(mine), "after")
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["after"]
    assert case.notes == 1
