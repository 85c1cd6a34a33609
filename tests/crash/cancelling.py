"""Cancel a call at its n-th suspension, for n = 1, 2, 3, … until it ends on its own.

Some drivers suspend a call dozens of times. After the first few, one of `ROWCALL_TEST_CANCEL_SHARE` suspensions
is tried, chosen by the name of the test.

A step in a thread can be cancelled at three moments, and all three are forced: before a thread has picked it up, while
it runs, and when it has ended but the caller has not yet gone on.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
import functools
import itertools
import os
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MOST_SUSPENSIONS = 200
ALWAYS_TRIED = 5
SHARE = int(os.environ.get("ROWCALL_TEST_CANCEL_SHARE", "32"))
DEADLINE_SECONDS = 20.0


class Moment(enum.Enum):
    NOT_BEGUN = "before a thread has picked the step up"
    RUNNING = "while the step runs"
    ENDED = "after the step has ended"


Way = tuple[Moment, int]
"""The moment, and how many times the task is cancelled then."""

WAYS: tuple[Way, ...] = (Moment.NOT_BEGUN, 1), (Moment.NOT_BEGUN, 3), (Moment.RUNNING, 3), (Moment.ENDED, 1)


class Blow(NamedTuple):
    """At which suspension a call is cancelled, in which moment of a step in a thread, and how many times."""

    suspension: int
    moment: Moment
    times: int

    def __str__(self) -> str:
        return f"cancelled {self.times} times at suspension {self.suspension}, {self.moment.value}"


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose next step in a thread can be held at a moment, until `release` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.held_at: Moment | None = None
        self._steps: list[concurrent.futures.Future[Any]] = []
        self._released = threading.Event()

    def run_in_executor(
        self, executor: concurrent.futures.Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        moment, released = self.held_at, self._released
        step: concurrent.futures.Future[T] = concurrent.futures.Future()
        begun = threading.Event()

        def run() -> None:
            if moment is Moment.NOT_BEGUN:
                released.wait()
            is_wanted = step.set_running_or_notify_cancel()
            begun.set()
            if not is_wanted:
                return
            if moment is Moment.RUNNING:
                released.wait()
            try:
                step.set_result(func(*args))
            except BaseException as error:
                step.set_exception(error)

        self._steps.append(step)
        super().run_in_executor(executor, run)
        if moment is Moment.RUNNING:
            begun.wait()
        if moment is Moment.ENDED:
            concurrent.futures.wait([step])
        return asyncio.wrap_future(step, loop=self)

    def release(self) -> None:
        self._released.set()
        self._released = threading.Event()

    def wait_for_steps(self) -> None:
        """Until no thread is at work on what was begun here."""
        steps, self._steps = self._steps, []
        unfinished = concurrent.futures.wait(steps, timeout=DEADLINE_SECONDS).not_done
        assert not unfinished, "a step in a thread is stuck"


def suspensions() -> Iterator[int]:
    """At which suspensions a call is cancelled: the first ones, and a share of the others, without a rhythm."""
    chance = random.Random(os.environ["PYTEST_CURRENT_TEST"])
    gaps = (chance.randint(1, 2 * SHARE - 1) for _ in itertools.count())
    return itertools.chain(range(1, ALWAYS_TRIED), itertools.accumulate(gaps, initial=ALWAYS_TRIED))


def run(story: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        return await story()

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        return runner.run(whole())


class Counted(Generic[T]):
    """Await a call; `reached` is called when the call has been suspended this many times."""

    def __init__(self, call: Awaitable[T], blow: Blow, reached: Callable[[], object]) -> None:
        self._call = call
        self._blow = blow
        self._reached = reached
        self.is_over = False

    def __await__(self) -> Generator[Any, Any, T]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        call: Any = self._call.__await__()
        go_on: Callable[[], Any] = functools.partial(call.send, None)
        suspensions = 0
        while True:
            loop.held_at = self._blow.moment if suspensions == self._blow.suspension - 1 else None
            try:
                waited_for = go_on()
            except BaseException as error:
                self.is_over = True
                if isinstance(error, StopIteration):
                    result: T = error.value
                    return result
                raise
            finally:
                loop.held_at = None
            suspensions += 1
            if suspensions == self._blow.suspension:
                self._reached()
            try:
                sent = yield waited_for
                go_on = functools.partial(call.send, sent)
            except BaseException as error:
                go_on = functools.partial(call.throw, error)


async def cancelled_once(call: Awaitable[object], blow: Blow) -> bool:
    """Whether the call was cancelled before it ended on its own. A cancellation is never swallowed."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert isinstance(loop, SteppedLoop)
    assert task is not None
    was_cancelled = False

    def cancel(times: int) -> None:
        nonlocal was_cancelled
        if counted.is_over:  # it would hit whatever comes after the call
            return
        was_cancelled = True
        task.cancel()
        if times > 1:
            loop.call_soon(cancel, times - 1)
        else:
            loop.release()

    counted = Counted(call, blow, lambda: loop.call_soon(cancel, blow.times))
    try:
        await counted
    except asyncio.CancelledError:
        assert was_cancelled
        while task.cancelling():
            task.uncancel()
        return True
    assert not was_cancelled, f"the cancellation was swallowed: {blow}"
    return False


async def left_behind(call: Awaitable[object], blow: Blow) -> bool:
    """Whether the call is still suspended. Awaited last, as closing the event loop is what cancels it then."""
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    assert isinstance(loop, SteppedLoop)

    async def whole() -> None:
        await Counted(call, blow, reached.set)

    async def release() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            loop.release()

    work = asyncio.create_task(whole())
    waiting = [work, asyncio.create_task(reached.wait()), asyncio.create_task(release())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
    return not work.done()


async def blows(cancel: Callable[[Blow], Awaitable[bool]], ways: Iterable[Way] = WAYS) -> AsyncIterator[Blow]:
    """Each way to cancel the call once, after it was done: the caller looks at what is left behind."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppedLoop)
    for moment, times in ways:
        for suspension in itertools.takewhile(lambda number: number < MOST_SUSPENSIONS, suspensions()):
            blow = Blow(suspension, moment, times)
            went_on = await cancel(blow)
            loop.release()
            loop.wait_for_steps()
            yield blow
            if not went_on:
                break
        else:
            raise AssertionError(f"the call is still suspended after {MOST_SUSPENSIONS} times")
