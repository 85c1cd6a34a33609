"""Each kind of connection in each kind of transaction: the job comes with the commit, and never without."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rowcall import InvalidArguments, InvalidOption, Rowcall, SchemaMismatch
from tests.drivers.caller.callers.base import Caller, Undo
from tests.drivers.caller.desk import Lending


def test_commit(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        job = await mine.enqueue(lending.send(mine, priority=3, delay=60, tags=["a"], expires_in=90), "ä % $1 ?1 'b'")
        assert lending.written == []
        await mine.commit()
        assert lending.written == [job]

    lending.run(scenario)
    assert lending.notes == 1


def test_rollback(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.enqueue(lending.send(mine), "a")
        await mine.enqueue_many(lending.send(mine), [{"to": "b"}, {"to": "c"}])
        await mine.rollback()
        await mine.begin()
        await mine.enqueue(lending.send(mine), "d")
        await mine.commit()

    lending.run(scenario)
    assert lending.notes == 0
    assert lending.sent_to == ["d"]


def test_rollback_of_nothing_but_the_enqueue(lending: Lending) -> None:
    """The enqueue is the first statement of the transaction."""

    async def scenario(mine: Caller) -> None:
        for enqueue in (
            lambda: mine.enqueue(lending.send(mine), "a"),
            lambda: mine.enqueue_many(lending.send(mine), [{"to": "b"}]),
        ):
            await mine.begin()
            await enqueue()
            await mine.rollback()

    lending.run(scenario)
    assert lending.written == []


def test_savepoint_rollback(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.enqueue(lending.send(mine), "kept")
        with contextlib.suppress(Undo):
            async with mine.savepoint():
                await mine.enqueue(lending.send(mine), "undone")
                await mine.enqueue_many(lending.send(mine), [{"to": "undone"}])
                raise Undo
        async with mine.savepoint():
            await mine.enqueue(lending.send(mine), "again")
        assert lending.written == []
        await mine.commit()

    lending.run(scenario)
    assert lending.sent_to == ["kept", "again"]
    assert lending.notes == 1


def test_select_before_enqueue(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        for end, to in ((mine.rollback, "a"), (mine.commit, "b")):
            await mine.begin()
            assert await mine.execute("select count(*) from mine where id = -1") == [(0,)]
            await mine.enqueue(lending.send(mine), to)
            await end()

    lending.run(scenario)
    assert lending.sent_to == ["b"]


def test_bulk_of_a_thousand(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        made = await mine.enqueue_many(lending.send(mine, tags=["bulk"]), [{"to": str(n)} for n in range(1000)])
        assert lending.written == []
        await mine.commit()
        assert lending.written == made

    lending.run(scenario)
    assert lending.sent_to == [str(n) for n in range(1000)]


def test_by_name(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        for end, to in ((mine.rollback, "a"), (mine.commit, "b")):
            await mine.begin()
            await mine.enqueue_by_name(lending.jobs, "send", {"to": to}, lending.queue)
            await mine.enqueue_by_name(lending.jobs, "not_declared_here", {"to": to}, lending.queue)
            await end()

    lending.run(scenario)
    assert [(job.type, job.payload) for job in lending.written] == [
        ("send", {"to": "b"}),
        ("not_declared_here", {"to": "b"}),
    ]


Refused = Callable[[Lending, Caller], Coroutine[Any, Any, object]]


async def wrong_arguments(lending: Lending, mine: Caller) -> None:
    with pytest.raises(InvalidArguments):
        await mine.enqueue(lending.send(mine), 5)
    with pytest.raises(InvalidArguments):
        await mine.enqueue(lending.send(mine), "a\0b")
    with pytest.raises(InvalidArguments, match="row 1"):
        await mine.enqueue_many(lending.send(mine), [{"to": "a"}, {"to": 5}])


async def wrong_option(lending: Lending, mine: Caller) -> None:
    with pytest.raises(InvalidOption, match="delay"):
        await mine.enqueue(lending.send(mine, delay=-1), "a")
    with pytest.raises(InvalidOption, match="name"):
        await mine.enqueue_by_name(lending.jobs, "x" * 500, {}, lending.queue)


async def wrong_database(lending: Lending, mine: Caller) -> None:
    for _ in range(2):
        with pytest.raises(InvalidOption, match=r"connection: .*this queue is in "):
            await mine.enqueue(lending.elsewhere.send.using(connection=mine.lent), "a")


async def missing_tables(lending: Lending, mine: Caller) -> None:
    with (
        Rowcall(lending.desk.url, table_prefix="missing_", auto_migrate=False) as jobs,
        pytest.raises(SchemaMismatch, match="rowcall migrate"),
    ):
        await mine.enqueue_by_name(jobs, "send", {"to": "a"}, lending.queue)


@pytest.mark.parametrize("refused", [wrong_arguments, wrong_option, wrong_database, missing_tables])
def test_refused(lending: Lending, refused: Refused) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await refused(lending, mine)
        assert await mine.execute("select 1") == [(1,)]
        await mine.enqueue(lending.send(mine), "after")
        await mine.commit()

    lending.run(scenario)
    assert lending.sent_to == ["after"]
    assert lending.notes == 1
