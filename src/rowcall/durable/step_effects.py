"""The effects of steps: what a step yields to be read, written or called."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import ClassVar, TypeVar, cast

import msgspec

from rowcall.base.effects import Effect, Effects
from rowcall.domain.blobs import MARK
from rowcall.domain.errors import InvalidArguments, InvalidOption, StepTimeout
from rowcall.domain.payload import hints_of, result_as, result_decoder, value_from_row
from rowcall.domain.step import StepRow, StepWritten
from rowcall.durable.step_state import CalledStep, RunningStep, StepState, inside
from rowcall.store.new_step import StepWrite

T = TypeVar("T")


class ReturnType:
    """What a function returns: its annotation, and the decoder of that."""

    _known: ClassVar[weakref.WeakKeyDictionary[Callable[..., object], ReturnType]] = weakref.WeakKeyDictionary()

    def __init__(self, annotation: object) -> None:
        self._annotation = annotation
        self.decoder = result_decoder(annotation)

    @classmethod
    def of(cls, function: Callable[..., object] | None) -> ReturnType:
        return cls(None) if function is None else cls.by(function)

    @classmethod
    def by(cls, function: Callable[..., object]) -> ReturnType:
        while isinstance(function, partial):
            function = function.func
        function = getattr(function, "__func__", function)
        try:
            return cls._known[function]
        except (KeyError, TypeError):
            pass
        try:
            returned = cls(hints_of(function).get("return"))
        except InvalidOption:
            returned = cls(None)
        with contextlib.suppress(TypeError):  # not hashable, or without weak references
            cls._known[function] = returned
        return returned

    def decoded(self, text: str | None) -> object:
        """Return the result as it is stored: the first attempt gets the same value as later ones."""
        if self.decoder is not None and text is not None:
            try:
                return self.decoder.decode(text)
            except (msgspec.ValidationError, TypeError):
                pass  # recorded by another version of the function
        return result_as(self._annotation, value_from_row(text))


Flow = Effects[StepState, T]


class ReadSteps(Effect[StepState, list[StepRow]]):
    """Read what earlier attempts have recorded."""

    def run(self, state: StepState) -> list[StepRow]:
        return state.store.read()

    async def arun(self, state: StepState) -> list[StepRow]:
        return await asyncio.get_running_loop().run_in_executor(None, state.store.read)


def recorded_at(state: StepState, step: CalledStep) -> Flow[StepRow | None]:
    """Return what earlier attempts have recorded about a step, or raise `StepsChanged`."""
    if state.recorded is None:
        state.note_recorded((yield from ReadSteps()))
    return state.recorded_as(step)


def write_patches(state: StepState, connection: object = None) -> None:
    """Write the new patches, before the step that depends on them. A caller may still roll its transaction back."""
    patches = state.unwritten_patches()
    for patch in patches:
        state.store.write(patch, connection)
    if connection is None:
        state.note_patches(patches)


async def awrite_patches(state: StepState, connection: object = None) -> None:
    patches = state.unwritten_patches()
    for patch in patches:
        await state.store.awrite(patch, connection)
    if connection is None:
        state.note_patches(patches)


class Fetch(Effect[StepState, str | None]):
    """Read a result that is stored outside of its row, or encrypted. `child`: the task whose job has returned it."""

    def __init__(self, text: str, child: str | None) -> None:
        self._text = text
        self._child = child

    def run(self, state: StepState) -> str | None:
        return state.store.fetched(self._text, self._child)

    async def arun(self, state: StepState) -> str | None:
        return await asyncio.get_running_loop().run_in_executor(None, self.run, state)


def fetched(text: str | None, child: str | None = None) -> Flow[str | None]:
    """Return a result as its row has it, or read it: most rows have it."""
    return text if text is None or MARK not in text else (yield from Fetch(text, child))


class WriteAll(Effect[StepState, list[StepWritten]]):
    """Write steps in one transaction, and enqueue the children that they wait for."""

    def __init__(self, writes: Sequence[StepWrite]) -> None:
        self._writes = writes

    def run(self, state: StepState) -> list[StepWritten]:
        state.facts.check_running(self._writes[-1].kind)
        if state.has_new_patches:
            write_patches(state)
        return state.store.write_all(self._writes)

    async def arun(self, state: StepState) -> list[StepWritten]:
        state.facts.check_running(self._writes[-1].kind)
        if state.has_new_patches:
            await awrite_patches(state)
        return await state.store.awrite_all(self._writes)


class WriteStep(Effect[StepState, StepWritten]):
    def __init__(self, write: StepWrite, connection: object = None) -> None:
        self._write = write
        self._connection = connection

    def run(self, state: StepState) -> StepWritten:
        state.facts.check_running(self._write.kind)
        if state.has_new_patches:
            write_patches(state, self._connection)
        return state.store.write(self._write, self._connection)

    async def arun(self, state: StepState) -> StepWritten:
        state.facts.check_running(self._write.kind)
        if state.has_new_patches:
            await awrite_patches(state, self._connection)
        return await state.store.awrite(self._write, self._connection)


class CallFunction(Effect[StepState, object]):
    """Call the function of a step. In an async handler, or with a timeout, one that is not async runs in a thread."""

    def __init__(
        self,
        name: str,
        call: Callable[[], object],
        function: Callable[..., object],
        timeout_seconds: float | None = None,
    ) -> None:
        self._step = RunningStep(name)
        self._call = call
        self._function = function
        self._timeout_seconds = timeout_seconds
        self.returned = ReturnType.by(function)

    def run(self, state: StepState) -> object:
        token = inside.set(self._step)
        try:
            result = self._call() if self._timeout_seconds is None else self._within(state, self._timeout_seconds)
        finally:
            inside.reset(token)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise InvalidArguments(
                state.facts.task,
                f"step {self._step.name!r}: an async function needs an async handler; make the handler async",
            )
        return result

    def _within(self, state: StepState, seconds: float) -> object:
        """Call it in a thread, which may continue after its time: nothing can end it."""
        called: Future[object] = Future()
        ended = threading.Event()

        def call() -> None:
            try:
                called.set_result(self._call())
            except BaseException as error:  # raised in the handler
                called.set_exception(error)
            ended.set()

        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(call,), name=f"rowcall-step-{self._step.name}", daemon=True).start()
        if not state.facts.clock.wait(ended, seconds):
            self._step.has_timed_out = True
            raise StepTimeout(state.facts.job_id, self._step.name, seconds)
        return called.result()

    async def arun(self, state: StepState) -> object:
        if self._timeout_seconds is None:
            return await self._acall()
        called = asyncio.ensure_future(self._acall())
        try:
            return await state.facts.clock.within(called, self._timeout_seconds)
        except TimeoutError:
            if called.done() and not called.cancelled():
                raise  # of the function
            self._step.has_timed_out = True
            raise StepTimeout(state.facts.job_id, self._step.name, self._timeout_seconds) from None

    async def _acall(self) -> object:
        token = inside.set(self._step)
        try:
            if inspect.iscoroutinefunction(self._function):
                return await cast("Awaitable[object]", self._call())
            result = await asyncio.to_thread(self._call)
            return await result if inspect.isawaitable(result) else result
        finally:
            inside.reset(token)
