"""A program that enqueues, in the environment of a queue: driver APP. It answers commands, which are lines of JSON.

`["prepare"]`, `["enqueue", what, first, count]` one by one, `["enqueue_many", what, first, count]`. An answer has the
number of jobs that were enqueued, the seconds it took and, if a call raised, its error.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

MANY = 1_000


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the queue prints is not an answer
    app = import_module(f"{__package__}.{sys.argv[1]}")
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    for line in sys.stdin:
        print(json.dumps(_answer(app, loop, *json.loads(line))), file=answers, flush=True)
    os._exit(0)  # threads of the queue may be left


def _answer(
    app: Any, loop: asyncio.AbstractEventLoop, call: str, what: str = "", first: int = 0, count: int = 0
) -> dict[str, object]:
    function = getattr(app, call)
    calls = _calls(call, what, first, count)
    began = time.perf_counter()
    if inspect.iscoroutinefunction(function):
        done, error = loop.run_until_complete(_awaited(function, calls))
    else:
        done, error = _called(function, calls)
    seconds = time.perf_counter() - began
    return {"done": min(done * _size(call), count), "seconds": seconds} | ({"error": error} if error else {})


def _calls(call: str, what: str, first: int, count: int) -> list[tuple[object, ...]]:
    """Return the arguments of each call."""
    if call == "prepare":
        return [()]
    if call == "enqueue":
        return [(what, number) for number in range(first, first + count)]
    end = first + count
    return [(what, range(start, min(start + MANY, end))) for start in range(first, end, MANY)]


def _size(call: str) -> int:
    return MANY if call == "enqueue_many" else 1


def _called(function: Callable[..., object], calls: list[tuple[object, ...]]) -> tuple[int, str]:
    for done, arguments in enumerate(calls):
        try:
            function(*arguments)
        except Exception as error:
            return done, f"{type(error).__name__}: {error}"
    return len(calls), ""


async def _awaited(function: Callable[..., Awaitable[object]], calls: list[tuple[object, ...]]) -> tuple[int, str]:
    for done, arguments in enumerate(calls):
        try:
            await function(*arguments)
        except Exception as error:
            return done, f"{type(error).__name__}: {error}"
    return len(calls), ""


if __name__ == "__main__":
    main()
