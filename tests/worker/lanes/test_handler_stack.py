"""Where the handler of an attempt is, read from another thread."""

from __future__ import annotations

import threading

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.lanes.handler_stack import on_event_loops, stack_of
from tests.support import eventually
from tests.worker.support import claimed


def test_handlers_in_a_thread_and_on_the_event_loop(jobs: Rowcall) -> None:
    began, go_on = threading.Semaphore(0), threading.Event()

    @jobs.task
    def in_a_thread() -> None:
        began.release()
        go_on.wait()

    @jobs.task
    async def blocking() -> None:
        in_a_thread()

    @jobs.task
    async def behind() -> None: ...

    for task in (in_a_thread, blocking, behind):
        task.enqueue()
    attempts = claimed(jobs, 3)
    dispatcher = Dispatcher(3, lambda: None, queue_of(jobs).clock, None)
    dispatcher.accept(attempts, [])
    dispatcher.start_accepted()
    for _ in range(2):
        began.acquire()
    eventually(lambda: stack_of(attempts[0]) and stack_of(attempts[1]))
    found = [[frame.function for frame in stack_of(attempt) if frame.module == __name__] for attempt in attempts]
    (executing,) = [attempt for attempt, _ in on_event_loops() if attempt in attempts]
    go_on.set()
    eventually(lambda: not dispatcher.busy)
    assert found == [["in_a_thread"], ["blocking", "in_a_thread"], []]
    assert executing is attempts[1]
    assert [stack_of(attempt) for attempt in attempts] == [[], [], []]
    dispatcher.close()
