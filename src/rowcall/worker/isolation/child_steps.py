"""The durable steps of an attempt in a child process: the worker writes them, in commits that attempts share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rowcall.domain.step import StepRow, StepWritten
from rowcall.durable.step_state import CalledStep, Function
from rowcall.queue import Queue
from rowcall.store.new_step import StepWrite
from rowcall.worker.isolation.messages import Answered, Asked
from rowcall.worker.steps import Bind, StepWriter, child_of, function_of


class ChildSteps:
    """`ask` asks the worker; `own_queue` returns the queue as this process has it, for the caller's connections."""

    def __init__(self, task: str, ask: Callable[[Asked], Answered], own_queue: Callable[[str], Queue]) -> None:
        self._task = task
        self._ask = ask
        self._own_queue = own_queue

    def read(self) -> list[StepRow]:
        return self._ask(Asked("steps")).steps

    def write(self, write: StepWrite, connection: object) -> StepWritten:
        if connection is None:
            written = self._ask(Asked("step", step=write)).written
            assert written is not None
            return written
        queue = self._own_queue("step with a connection")
        return queue.run(StepWriter(queue).write_on(connection, self._task, write))

    async def awrite(self, write: StepWrite, connection: object) -> StepWritten:
        if connection is None:
            return await asyncio.get_running_loop().run_in_executor(None, self.write, write, None)
        queue = self._own_queue("step with a connection")
        return await queue.arun(StepWriter(queue).write_on(connection, self._task, write))

    def write_all(self, writes: Sequence[StepWrite]) -> list[StepWritten]:
        return self._ask(Asked("calls", calls=list(writes))).calls

    async def awrite_all(self, writes: Sequence[StepWrite]) -> list[StepWritten]:
        return await asyncio.get_running_loop().run_in_executor(None, self.write_all, writes)

    def bind(self, task: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Bind:
        return child_of(self._own_queue("call"), task, args, kwargs)

    def function_of(self, task: str) -> Function | None:
        return function_of(self._own_queue("call"), task)

    def may_call(self, step: CalledStep) -> bool:
        return True

    def fetched(self, text: str, child: str | None) -> str:
        return str(self._ask(Asked("result of a step", task=child or "", payload=text)).value)
