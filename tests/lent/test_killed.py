"""A caller that is killed between its enqueue and its commit leaves no job, on any kind of connection."""

from __future__ import annotations

import pytest

from rowcall import Rowcall
from tests.lent.callers.kinds import BY_NAME
from tests.lent.desk import Desk, Lending
from tests.lent.nursery import Line, Nursery

pytestmark = pytest.mark.crash


def enqueue_and_wait(line: Line, kind: str, place: str, url: str, queue: str) -> None:
    """In a process of its own, which does not live to see its commit."""

    async def scenario() -> None:
        async with BY_NAME[kind].opened(place) as mine:
            await mine.begin()
            await mine.execute(f"insert into mine (id, note) values (1, '{queue}')")
            await mine.enqueue(desk.send.using(connection=mine.lent, queue=queue), "a")
            (count,) = await mine.execute(f"select count(*) from rowcall_job where queue = '{queue}'")
            line.say(seen=count[0])
            line.wait_for_the_end()
            await mine.commit()

    with Rowcall(url) as jobs:
        desk = Desk(place, jobs)
        BY_NAME[kind].run(scenario())


def test_killed_before_the_commit(lending: Lending, nursery: Nursery) -> None:
    wishes = {"kind": lending.kind.name, "place": lending.desk.place, "url": lending.desk.url, "queue": lending.queue}
    with nursery.child(f"{__name__}:enqueue_and_wait", **wishes) as child:
        assert child.ready() == {"seen": 1}
        child.kill()
    lending.desk.wait_for_writers()
    assert lending.written == []
    assert lending.notes == 0
