"""Tasks whose jobs are delivered to a target: their handler sends the job, and the task's function is never called."""

from __future__ import annotations

import msgspec

from rowcall.context import Context
from rowcall.declare.declaration import Declaration
from rowcall.domain.payload import MISMATCH_CODE, Arguments, PayloadUnfit
from rowcall.queue import Queue

_object = msgspec.json.Decoder(dict[str, object])


class WholePayload(Arguments):
    """All arguments as one dict: the target checks them."""

    def from_json(self, text: str) -> tuple[list[object], dict[str, object]]:
        try:
            return [_object.decode(text)], {}
        except (msgspec.DecodeError, RecursionError) as error:
            raise PayloadUnfit(MISMATCH_CODE, f"the payload is not a JSON object: {error}") from error


class Pushing:
    """Returns, for a task, what a worker runs instead of its function."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._made: dict[Declaration, Declaration] = {}

    def of(self, task: Declaration) -> Declaration:
        if task not in self._made:
            self._made[task] = self._pushed(task)
        return self._made[task]

    def _pushed(self, task: Declaration) -> Declaration:
        deliver = self._queue.deliver
        assert deliver is not None

        async def push(ctx: Context, arguments: dict[str, object]) -> object:
            target = ctx.job.target or task.options.target
            assert target is not None
            return await deliver(ctx, target, arguments, _timeout_seconds(task, ctx))

        options = msgspec.structs.replace(task.options, batch=None, isolated=False, limits=None, middleware=())
        pushed = Declaration(task.name, push, options)
        pushed.arguments = WholePayload(task.name, push, skip_first=True)
        pushed.arguments.fingerprint = task.arguments.fingerprint
        pushed.failures, pushed.queue, pushed.defaults = task.failures, task.queue, task.defaults
        return pushed


def _timeout_seconds(task: Declaration, ctx: Context) -> float | None:
    """Return the timeout that the worker watches, as for other handlers."""
    own = ctx.job.timeout or task.options.timeout_seconds
    if own is None and task.defaults is not None:
        return task.defaults.timeout_seconds(ctx.job.queue)
    return own
