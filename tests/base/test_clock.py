from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowcall
from rowcall.base.clock import Clock, SystemClock, jittered

ROOT = Path(rowcall.__file__).parent
MODULES = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path != ROOT / "base" / "clock.py" and path.relative_to(ROOT).parts[0] != "testing"
]
NOT_EVENTS = {
    "SYSTEM_CLOCK",
    "clock",
    "_clock",
    "ticket",
    "waiter",
    "_waiter",
    "_watch",
    "waker",
    "_waker",
    "process",
    "notifications",
}
"""Names of objects that have a method `wait` with a timeout and are not a `threading.Event`."""


class FixedChance(SystemClock):
    def __init__(self, chance: float) -> None:
        self.chance = lambda: chance


def test_the_system_clock_leaves_the_queues_time_to_the_database() -> None:
    clock: Clock = SystemClock()
    assert clock.now() is None
    assert clock.wall() > 1_600_000_000
    assert clock.monotonic() <= clock.monotonic()
    assert clock.timer() <= clock.timer()
    assert 0.0 <= clock.chance() < 1.0


def test_a_wait_returns_whether_the_event_is_set() -> None:
    clock, event = SystemClock(), threading.Event()
    assert not clock.wait(event, 0.001)
    event.set()
    assert clock.wait(event)


def test_the_clock_sleeps_in_threads_and_on_event_loops() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    clock.sleep(0.001)
    asyncio.run(clock.asleep(0.001))
    assert clock.monotonic() >= before + 0.002


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 2.0), (0.5, 3.0), (1.0, 4.0)])
def test_a_jittered_pause_is_between_half_and_all_of_it(chance: float, seconds: float) -> None:
    assert jittered(FixedChance(chance), 4.0) == seconds


def test_no_other_module_waits_or_reads_a_clock() -> None:
    found = {str(path.relative_to(ROOT)): list(timed_calls(ast.parse(path.read_text()))) for path in MODULES}
    assert {path: calls for path, calls in found.items() if calls} == {}


def timed_calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        receiver, arguments = node.func.value, [*node.args, *(keyword.value for keyword in node.keywords)]
        owner = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
        match owner, node.func.attr:
            case "asyncio", "sleep" if (
                ast.unparse(node.args[0]) != "0"
            ):  # which lets other tasks run, and takes no time
                yield ast.unparse(node)
            case ("asyncio", "wait_for" | "timeout") | ("datetime", "now" | "utcnow") | ("date", "today"):
                yield ast.unparse(node)
            case _, "wait" if arguments and owner not in NOT_EVENTS:
                yield ast.unparse(node)
