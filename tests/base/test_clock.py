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

KNOWN_WAITS = {
    # event loops: the time of a handler, and how long a driver waits for a cancelled step
    "worker/lanes/async_lane.py": [
        "self._loop.call_later(CANCEL_AGAIN_SECONDS, self._time_out, call, waited_seconds + CANCEL_AGAIN_SECONDS)",
        "loop.call_later(call.timeout_seconds, self._time_out, call, 0.0)",
    ],
    "drivers/transaction_block.py": ["loop.call_later(LOCK_PATIENCE_SECONDS, self._interrupt, plan)"],
    "http/serve.py": ["asyncio.get_running_loop().call_later(seconds, transport.abort)"],
    "drivers/uncancellable.py": ["loop.call_later(self._patience_seconds, self._give_up, loop)"],
    # descriptors: the waiters get how long from a clock
    "wake/waiter_and_file_watch.py": 2 * ["poll.poll(seconds * 1000 if seconds > 0 else 0)"],
    # processes: a fork, and children of a supervisor
    "drivers/forking.py": ["poll.poll(CHILD_SECONDS * 1000)"],
    "drivers/mysql/pool.py": ["self._free.acquire(timeout=self._wait_seconds)"],
    "drivers/sqlite/connection.py": ["self._in_use.acquire(timeout=READ_SECONDS)"],
    "worker/process/supervisor.py": ["self._ended.get(timeout=self._next_in_seconds())"],
    # a count of another reader, which has a limit; threads that may be blocked by a server out of reach
    "http/shared_counts.py": ["asyncio.wait([self._asking])"],
    # a reading of events that several streams share: its own wait uses the clock
    "http/live.py": ["reading.wait(position, quiet_at - timer())", "asyncio.wait([taking])"],
    "http/shared_events.py": ["asyncio.wait([self._task])"],
    "overview/alerting.py": ["thread.join(STOP_SECONDS)"],
    "observe/meter.py": ["asking.join(self._patience_seconds)"],
    "operations/results.py": ["thread.join(CLOSE_SECONDS)"],
    "wake/postgres_listener.py": ["self._thread.join(STOP_SECONDS)", "poll.poll(pause_seconds * 1000)"],
    # psycopg's own method, around which silence is counted
    "drivers/postgres/connection.py": [
        "super().wait(gen, *args, **options)",
        "super().wait(_while_heard(gen, seconds), *args, **{**options, 'interval': SILENCE_SECONDS})",
    ],
    "worker/service.py": ["self._thread.join(PATIENCE_SECONDS)"],
    # not a wait: the job has ended
    "integrations/celery/result.py": ["self.get(timeout=0, propagate=False)"],
}
"""Waits that a `Clock` does not offer: for an event loop, a descriptor, a process or the end of a thread."""


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
    assert {path: calls for path, calls in found.items() if calls} == KNOWN_WAITS


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
            case _, "join" if arguments and ("thread" in owner or owner == "asking"):
                yield ast.unparse(node)
            case _, "call_later" | "call_at" | "poll" | "select" if arguments and ast.unparse(arguments[0]) != "0":
                yield ast.unparse(node)
            case _, "get" | "acquire" if any(keyword.arg == "timeout" for keyword in node.keywords):
                yield ast.unparse(node)
