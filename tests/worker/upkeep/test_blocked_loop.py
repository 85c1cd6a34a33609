"""A handler that blocks the event loop is named in the log, once, with its stack."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest

from rowcall import Rowcall
from rowcall.worker.attempt import Attempt
from rowcall.worker.upkeep import blocked_loop
from rowcall.worker.upkeep.blocked_loop import BlockedLoop
from tests.support import eventually
from tests.worker.support import claimed, ended, some_heartbeats


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "blocks the event loop" in message]


def test_a_handler_that_blocks_is_named_once(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked_loop, "BLOCKED_SECONDS", 0.01)
    caplog.set_level(logging.WARNING, logger="rowcall")
    go_on = threading.Event()

    @jobs.task
    async def waits() -> None:
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait)

    @jobs.task
    async def blocks() -> None:
        await asyncio.sleep(0)
        go_on.wait()

    with jobs.worker(lease=1):
        waiting, blocking = waits.enqueue(), blocks.enqueue()
        eventually(lambda: named(caplog))
        some_heartbeats(jobs)
        go_on.set()
        ended(jobs, waiting)
        ended(jobs, blocking)
    (message,) = named(caplog)
    lines = message.splitlines()
    assert lines[0].startswith(f"job {blocking.id} (blocks): its handler blocks the event loop for more than 0.01 s")
    assert lines[1].endswith(", in blocks")
    assert lines[2] == "    go_on.wait()"


class Scene:
    """In place of a dispatcher, a clock and the frames of threads: the test says who executes, and when the loop
    replies.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, has_loop: bool = True) -> None:
        self.now, self.has_loop = 0.0, has_loop
        self.executing: Attempt | None = None
        self.asked: list[Callable[[], None]] = []
        self.named: list[tuple[float, Attempt]] = []
        monkeypatch.setattr(
            blocked_loop, "on_event_loops", lambda: iter([(self.executing, [])] if self.executing else [])
        )
        monkeypatch.setattr(blocked_loop, "log_blocking", lambda one, *_: self.named.append((self.now, one)))
        self.watch = BlockedLoop(self, self)  # type: ignore[arg-type]

    def timer(self) -> float:
        return self.now

    def is_running(self, attempt: Attempt) -> bool:
        return True

    def call_on_event_loop(self, function: Callable[[], None]) -> bool:
        self.asked.append(function)
        return self.has_loop

    def look_until(self, end: float) -> None:
        while self.now < end:
            self.watch.look()
            self.now = min(end, self.now + self.watch.pause_seconds)


def test_only_one_that_blocks_for_a_second_by_itself_is_named(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    @jobs.task
    async def anything() -> None: ...

    for _ in range(2):
        anything.enqueue()
    first, second = claimed(jobs, 2)
    scene = Scene(monkeypatch)
    scene.executing = first
    scene.look_until(0.9)
    scene.executing = second  # without a reply in between
    scene.look_until(1.8)
    assert scene.named == []
    scene.look_until(1.95)
    scene.look_until(9.0)
    assert [(round(at, 2), one) for at, one in scene.named] == [(1.9, second)]
    assert len(scene.asked) == 1
    scene.asked[0]()
    scene.executing = first
    scene.look_until(9.9)
    scene.asked[1]()  # it has waited for something, and continues
    scene.look_until(10.8)
    assert scene.named == [scene.named[0]]


def test_without_an_event_loop_nothing_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, has_loop=False)
    scene.look_until(5.0)
    assert len(scene.asked) == 25
    assert scene.named == []
