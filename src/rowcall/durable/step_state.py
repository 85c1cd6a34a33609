"""What one attempt knows of its steps: the step that comes next, and what earlier attempts have recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from rowcall.base.clock import Clock
from rowcall.domain.checks import name_problem
from rowcall.domain.errors import InvalidOption, StepError, StepsChanged, Suspend
from rowcall.domain.step import (
    CHANGED_CODE,
    DUPLICATE_CODE,
    NOT_ALLOWED_CODE,
    StepKind,
    StepRow,
    StepWritten,
)
from rowcall.store.new_step import NewChild, StepWrite

Function = Callable[..., object]


class RunningStep:
    """A step whose function runs. One that is not async may continue to run after its timeout."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_timed_out = False


inside: ContextVar[RunningStep | None] = ContextVar("rowcall_step", default=None)
"""The step whose function runs here."""


def refuse_after_timeout(what: str) -> None:
    """Raise an error in the function of a step that has timed out: nothing that it does counts any more."""
    step = inside.get()
    if step is not None and step.has_timed_out:
        raise RuntimeError(f"ctx.{what} was called in step {step.name!r} after its timeout")


_CALLS = {StepKind.WAIT: "wait_for"}
"""The methods of a context that are not called like their steps."""


class StepFacts(NamedTuple):
    """The attempt whose steps these are."""

    task: str
    job_id: int
    lease: int
    holder: int
    attempt: int
    max_attempts: int
    is_async: bool
    clock: Clock
    is_over: Callable[[], bool]
    """Returns whether the handler has ended."""
    described: Callable[[Exception], tuple[str, str]]
    """Returns the code and the text that are stored about an error."""

    def check_running(self, what: str) -> None:
        if self.is_over():
            raise RuntimeError(f"ctx.{what} was called after the handler had ended")


class StepStore(Protocol):
    """Reads and writes the steps of one attempt."""

    def read(self) -> list[StepRow]: ...
    def write(self, write: StepWrite, connection: object) -> StepWritten:
        """Write a step in a commit that other attempts share, or on the caller's connection."""

    async def awrite(self, write: StepWrite, connection: object) -> StepWritten: ...
    def write_all(self, writes: Sequence[StepWrite]) -> list[StepWritten]:
        """Write steps in one transaction, which other attempts share."""

    async def awrite_all(self, writes: Sequence[StepWrite]) -> list[StepWritten]: ...
    def may_call(self, step: CalledStep) -> bool:
        """Return whether the function of a step without a recorded result is called. A replay ends there."""

    def fetched(self, text: str, child: str | None) -> str:
        """Return a result that a row holds or refers to: of the step, or of a job of the task `child`."""

    def bind(
        self, task: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[NewChild, Function | None]:
        """Return the job of a call, and the function of its task if that returns the result."""

    def function_of(self, task: str) -> Function | None:
        """Return the function of a task that returns its result, if this process has it."""


class CalledStep(NamedTuple):
    """A step that the handler calls: its number in the order of the calls, and what it is."""

    position: int
    kind: StepKind
    name: str

    @classmethod
    def recorded(cls, row: StepRow) -> CalledStep:
        return cls(row.position, cast("StepKind", row.kind), row.name)

    def __str__(self) -> str:
        if self.kind == StepKind.FIRST:
            return "ctx.first"
        return "a sleep" if self.kind == StepKind.SLEEP else f"{self.kind} {self.name!r}"


class StepState:
    """The steps of one attempt, in the order of their calls."""

    suspended: Suspend | None = None
    """How a step has ended this attempt, even if the handler caught it."""

    change: StepsChanged | None = None
    """How recorded steps do not fit the handler, even if it caught that."""

    last_allowed: int | None = None
    """In a sync handler, inside of `gather` or `first`: the position of the last step that a callable may call."""

    def __init__(self, store: StepStore, facts: StepFacts) -> None:
        self.store = store
        self.facts = facts
        self.position = 0
        self.recorded: dict[int, StepRow] | None = None
        """What earlier attempts have recorded, once it was read."""
        self.names: set[str] = set()
        self._last = 0
        """The position of the last step that earlier attempts have recorded."""
        self._by_name: dict[str, int] = {}
        self.asked: set[str] = set()
        """The patches that the handler has asked for."""
        self._patches: list[str] = []
        """The patches that are recorded, and then the new ones."""
        self._patches_written = 0
        if facts.lease == 1:  # the first claim of a job: no attempt has recorded anything before
            self.recorded = {}

    def enter(self, kind: StepKind, name: str) -> CalledStep:
        """Return the next step: its position is fixed by the call, not by when it is awaited."""
        what = _CALLS.get(kind, kind)
        self._check(what)
        if self.position == self.last_allowed:
            raise self.error(
                NOT_ALLOWED_CODE, f"ctx.{what}: a callable of ctx.gather or ctx.first must call one step, and no other"
            )
        if kind in (StepKind.STEP, StepKind.WAIT) and (problem := name_problem(name)):
            raise InvalidOption("name", problem)
        if kind is StepKind.STEP:
            if name in self.names:
                raise self.error(
                    DUPLICATE_CODE, f'step name {name!r} is used twice; in a loop, number it: f"{name}-{{number}}"'
                )
            self.names.add(name)
        self.position += 1
        return CalledStep(self.position, kind, name)

    def _check(self, what: str) -> None:
        """Raise an error if the handler must not call this method of its context here."""
        self.facts.check_running(what)
        if (outer := inside.get()) is not None:
            problem = f"ctx.{what} was called inside step {outer.name!r}; steps cannot be nested"
            raise self.error(NOT_ALLOWED_CODE, problem)
        if (caught := self.change or self.suspended) is not None:
            raise caught

    def next_call(self, task: str) -> bool:
        """Return whether the next step is recorded as a call of that task."""
        row = (self.recorded or {}).get(self.position + 1)
        return row is not None and (row.kind, row.name) == (StepKind.CALL, task)

    def preload(self) -> None:
        """Read what is recorded, unless it is known."""
        if self.recorded is None:
            self.note_recorded(self.store.read())

    def patched(self, name: str) -> bool:
        """Return whether the job runs new code here: no earlier attempt has come further without it.

        A new patch is written with the next step: until then, no attempt depends on it.
        """
        self._check("patched")
        if problem := name_problem(name):
            raise InvalidOption("name", problem)
        if name in self.asked:
            raise self.error(DUPLICATE_CODE, f"ctx.patched({name!r}) is called twice; keep its answer in a variable")
        self.asked.add(name)
        self.preload()
        if name not in self._patches:
            if self._last > self.position:
                return False
            self._patches.append(name)
        return True

    @property
    def has_new_patches(self) -> bool:
        return self._patches_written < len(self._patches)

    def unwritten_patches(self) -> list[StepWrite]:
        """Return the new patches. They are not in the order of steps, so their calls can be removed later."""
        new = [*enumerate(self._patches, 1)][self._patches_written :]
        return [self.write(CalledStep(-number, StepKind.PATCH, name), finished=True) for number, name in new]

    def note_patches(self, writes: list[StepWrite]) -> None:
        """Call when these patches have been committed."""
        self._patches_written = max([self._patches_written, *(-one.position for one in writes)])

    def note_recorded(self, rows: list[StepRow]) -> None:
        self._patches = [row.name for row in reversed(rows) if row.kind == StepKind.PATCH]
        self._patches_written = len(self._patches)
        rows = [row for row in rows if row.kind != StepKind.PATCH]
        self.recorded = {row.position: row for row in rows}
        self._last = rows[-1].position if rows else 0
        self._by_name = {row.name: row.position for row in rows if row.kind == StepKind.STEP}

    def recorded_as(self, step: CalledStep) -> StepRow | None:
        """Return what is recorded of a step, or raise `StepsChanged` if that is another step."""
        row = (self.recorded or {}).get(step.position)
        if row is not None and (row.kind, row.name) != (step.kind, step.name):
            recorded = CalledStep.recorded(row)
            raise self.changed(f"step {step.position} is recorded as {recorded}, and the handler now calls {step}")
        if step.kind == StepKind.STEP and (position := self._by_name.get(step.name, step.position)) != step.position:
            raise self.changed(
                f"{step} is recorded as step {position}, and the handler now calls it as step {step.position}"
            )
        return row

    def note_calls(self, writes: Iterable[StepWrite], written: Iterable[StepWritten]) -> None:
        """Remember the calls that this attempt has recorded."""
        assert self.recorded is not None
        for one, how in zip(writes, written, strict=True):
            row = StepRow(one.position, one.kind, one.name, how.status, 0, None, None, None, how.child_id)
            self.recorded[one.position] = row

    def left_out(self) -> StepsChanged | None:
        """Return an error if the handler has returned without a recorded step."""
        if not self.position:  # it calls no step any more
            return None
        left = [row for position, row in (self.recorded or {}).items() if position > self.position]
        if not left:
            return None
        first = CalledStep.recorded(min(left, key=lambda row: row.position))
        return self.changed(f"step {first.position} is recorded as {first}, and the handler has returned without it")

    @property
    def replays(self) -> bool:
        """Return whether the handler repeats what an earlier attempt did: recorded steps are still to come."""
        return self.recorded is None or self.position < self._last

    def error(self, code: str, problem: str) -> StepError:
        return StepError(self.facts.job_id, code, problem)

    def changed(self, problem: str) -> StepsChanged:
        self.change = StepsChanged(self.facts.job_id, CHANGED_CODE, problem)
        return self.change

    def write(self, step: CalledStep, **fields: Any) -> StepWrite:
        facts = self.facts
        return StepWrite(facts.job_id, facts.lease, facts.holder, facts.attempt, *step, **fields)

    def suspend(self, run_at_ms: int | None, *, waits: bool = False) -> NoReturn:
        self.suspended = Suspend(run_at_ms, waits=waits)
        raise self.suspended
