"""Background tasks that are enqueued together at the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rowcall import InvalidArguments, InvalidOption, Rowcall
from rowcall.integrations.asgi.background_tasks import Tasks


def test_all_calls_are_enqueued_at_the_end_or_none(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "a.db") as first, Rowcall(tmp_path / "b.db") as second:

        @first.task
        def send(to: str, subject: str = "hi") -> None: ...

        @second.task
        def count(number: int) -> None: ...

        async def request(fails: bool) -> None:
            async with Tasks() as background:
                background.add_task(send, "a", subject="x")
                background.add_task(send.using(priority=4), to="b")
                background.add_task(count, 1)
                assert (len(await first.alist()), len(await second.alist())) == (0, 0)
                if fails:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            asyncio.run(request(fails=True))
        assert (len(first.list()), len(second.list())) == (0, 0)
        asyncio.run(request(fails=False))
        found = [(job.payload, job.priority) for job in first.list(order="oldest")]
        assert found == [({"to": "a", "subject": "x"}, 0), ({"to": "b"}, 4)]
        assert [job.payload for job in second.list()] == [{"number": 1}]


def test_a_wrong_call_raises_where_it_is_made(tmp_path: Path) -> None:
    jobs, background = Rowcall(tmp_path / "a.db"), Tasks()

    @jobs.task
    def send(to: str) -> None: ...

    with pytest.raises(InvalidArguments):
        background.add_task(send, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"declare the function with @jobs\.task"):
        background.add_task(print, "a")  # type: ignore[arg-type]
    assert asyncio.run(background.enqueue()) == []
