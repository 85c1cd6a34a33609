"""Handlers for child processes, which import this module."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from rowcall import Cancel, Context, Fail, Retry, Snooze, WrongState, current
from rowcall.context import running
from rowcall.worker.isolation.child_attempt import ChildAttempt
from rowcall.worker.isolation.messages import Answered

SIGNALLED = 128 + signal.SIGTERM
served = 0


class TooBusy(Exception):
    def __init__(self, after: float) -> None:
        super().__init__(f"busy for {after} s")
        self.after = after


def note(folder: str, *words: object) -> None:
    with open(Path(folder) / "journal", "a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def where(number: int = 0) -> list[int]:
    """The process, its parent, and how many it has served."""
    global served
    served += 1
    return [os.getpid(), os.getppid(), served]


async def where_async() -> int:
    await asyncio.sleep(0)
    return os.getpid()


def say(ctx: Context, words: list[str]) -> list[object]:
    ctx.log.warning("said %s", words[0], extra={"shade": "red"})
    print("printed by the handler")
    print("and to stderr", file=sys.stderr)
    return [ctx.job.id, ctx.job.attempt, ctx.job.tags, current() is ctx, ctx.job.payload]


def end_as(way: str) -> object:
    match way:
        case "retry":
            raise Retry(600, "later")
        case "retry an error":
            raise Retry(600) from FileNotFoundError(2, "gone")
        case "snooze":
            raise Snooze(600)
        case "fail":
            raise Fail("A:B", "said so")
        case "cancel":
            raise Cancel("not needed")
        case "busy":
            raise TooBusy(42.0)
        case "os":
            raise FileNotFoundError(2, "gone")
        case "exit":
            sys.exit(3)
        case "no json":
            return object()
        case "large":
            return "x" * 300_000
    return None


def go_on(ctx: Context, by_name: bool) -> object:
    if not by_name:
        return [ctx.previous, ctx.blockers]
    ctx.continue_with("go_on", by_name=False)
    try:
        ctx.continue_with("go_on", by_name=False)
    except WrongState as error:
        return f"refused: {error.move}"
    return None


def die(way: str) -> None:
    match way:
        case "exit":
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)


def eat(megabytes: int, *, then_be_killed: bool = False) -> int:
    eaten = [bytearray(b"x") * 2**20 for _ in range(megabytes)]
    if then_be_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    return len(eaten)


def hold(folder: str, name: str, *, stubborn: bool = False) -> str:
    """Until the gate opens; one that is stubborn outlives SIGTERM."""
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    current().progress(0.5, "half way")
    try:
        note(folder, "start", name, os.getpid())
        while not (Path(folder) / f"{name}.open").exists():
            threading.Event().wait(0.01)
    finally:
        note(folder, "end", name)
    return name


def start_a_sleeper(folder: str) -> None:
    """Leave a child process behind, and die."""
    pid = os.fork()
    if pid == 0:
        threading.Event().wait()
    note(folder, "sleeper", pid)
    os._exit(1)


def leave_a_daemon(folder: str) -> None:
    """Says much and dies, while a process outside of its group holds all that it had open."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.write(writing, b"x")
        while not (Path(folder) / "daemon.open").exists():
            threading.Event().wait(0.01)
        os._exit(0)
    os.read(reading, 1)
    for number in range(100):
        current().log.warning("said %d", number)
    os._exit(7)


def close_everything() -> int:
    os.closerange(3, 65_536)
    return 1


def return_twice(folder: str) -> int:
    """One returns the number of the other; that one says more, which is about no job any longer, and returns too."""
    pid = os.fork()
    if pid == 0:
        while not (Path(folder) / "copy.open").exists():
            threading.Event().wait(0.01)
        attempt = running.get()
        assert isinstance(attempt, ChildAttempt)
        attempt.answers.put(Answered())  # no one else will
        current().continue_with("return_twice", folder=folder)
    return pid


# lifespans: they note in the folder that a variable of the environment names


def resources() -> Iterator[int]:
    note(os.environ["NOTES"], "enter", os.getpid())
    yield os.getpid()
    note(os.environ["NOTES"], "leave", os.getpid())


async def async_resources() -> AsyncIterator[object]:
    async with asyncio.timeout(None):  # must be left in the task that entered it
        note(os.environ["NOTES"], "enter", os.getpid())
        yield asyncio.get_running_loop()
    note(os.environ["NOTES"], "leave", os.getpid())


def resources_of_the_worker_only() -> Iterator[None]:
    if str(os.getpid()) != os.environ["NOTES"]:
        raise OSError("too many connections")
    yield


def use_resources(ctx: Context[int]) -> list[int]:
    return [os.getpid(), ctx.resources]


async def use_event_loop(ctx: Context[object], hold: bool = False) -> bool:
    if hold:
        try:
            await asyncio.Event().wait()
        finally:
            note(os.environ["NOTES"], "end", os.getpid())
    return ctx.resources is asyncio.get_running_loop()


def sign_up(ctx: Context, user_id: int) -> list[object]:
    """Made of steps: each notes when it runs."""
    ctx.progress(0, "asking")
    customer = ctx.step("customer", _noted, "customer", user_id)
    ctx.sleep(0.01)
    ctx.progress(0.5, "waiting")
    return [customer, ctx.wait_for("confirmed"), len(ctx.step("large", _large))]


async def sign_up_async(ctx: Context, user_id: int) -> list[object]:
    ctx.progress(0, "asking")
    customer = await ctx.step("customer", asyncio.to_thread, _noted, "customer", user_id)
    try:
        await ctx.sleep(0.01)
    except BaseException:
        return ["too early"]
    ctx.progress(0.5, "waiting")
    return [customer, await ctx.wait_for("confirmed"), len(await ctx.step("large", asyncio.to_thread, _large))]


def repeat_step(ctx: Context) -> None:
    ctx.step("same", int)
    ctx.step("same", int)


def charge(ctx: Context, card: str) -> str:
    charged = ctx.step("charge", card.upper)
    sent = ctx.wait_for("sent")
    if card.endswith("fails"):
        raise ValueError(f"{card} was refused")
    return f"{charged} {sent}"


async def forget_step(ctx: Context) -> None:
    ctx.step("forgotten", asyncio.sleep, 0)


def retry_sleep(ctx: Context) -> None:
    try:
        ctx.sleep(3600)
    except BaseException:
        raise Retry(delay=0) from None


def report_and_sleep(ctx: Context) -> None:
    if ctx.job.lease == 1:
        raise Snooze(delay=0)
    ctx.progress(0.1, "tired")
    ctx.sleep(3600)


def _noted(what: str, number: int) -> int:
    note(os.environ["NOTES"], what, os.getpid())
    return number


def _large() -> str:
    return "x" * 3_000_000
