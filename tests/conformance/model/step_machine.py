"""The walks of the plain machine, with durable steps: handlers record, sleep and wait, and signals come at any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from rowcall import LeaseLost, RecordedStep, StepKind, StepStatus, Suspend, WrongState
from rowcall.app import queue_of
from rowcall.base.times import milliseconds_of, time_of
from rowcall.domain.outcome import Raised
from rowcall.domain.step import FOREVER_MS, StepWritten
from rowcall.operations.effects import Write
from rowcall.store.new_step import StepWrite
from rowcall.store.steps.recorded import record_one
from tests.conformance.model.ends import WorkerClaim
from tests.conformance.model.machine import PICK, QueueMachine, pick_one
from tests.conformance.model.queue import ModelQueue
from tests.conformance.model.rows import compare
from tests.conformance.store import Store

FOREVER = time_of(FOREVER_MS)
NAMES = st.sampled_from(["paid", "sent"])


@dataclass
class ModelStep:
    kind: str
    name: str
    status: str
    due_at: datetime | None = None
    result: object = None


class ModelStepQueue(ModelQueue):
    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.steps: dict[int, list[ModelStep]] = {}
        self.signals: dict[int, list[tuple[str, int]]] = {}

    def moments(self) -> list[datetime]:
        return [at for at in super().moments() if at < FOREVER]

    def delete(self, job_id: int) -> None:
        super().delete(job_id)
        self.steps.pop(job_id, None)
        self.signals.pop(job_id, None)

    def retry(self, job_id: int) -> None:
        if self.jobs[job_id].status == "succeeded":  # it starts over
            self.steps.pop(job_id, None)
            self.signals.pop(job_id, None)
        super().retry(job_id)

    def open_step(self, job_id: int) -> ModelStep | None:
        """Return the last step if the handler cannot continue after it yet."""
        last = self.steps.get(job_id, [])[-1:]
        return next((step for step in last if step.status == "waiting" and not self.has_slept(step)), None)

    def has_slept(self, step: ModelStep) -> bool:
        return step.kind == "sleep" and step.due_at is not None and step.due_at <= self._now()

    def receive(self, job_id: int, step: ModelStep) -> None:
        """Let a wait receive its first signal, or time out."""
        kept = self.signals.get(job_id, [])
        found = next((one for one in kept if one[0] == step.name), None)
        if found is not None:
            kept.remove(found)
            step.status, step.result = "finished", found[1]
        elif step.due_at is not None and step.due_at <= self._now():
            step.status = "timed_out"

    def suspend(self, job_id: int, step: ModelStep) -> None:
        job, now = self.jobs[job_id], self._now()
        job.await_next_attempt("scheduled", "snoozed", now, run_at=step.due_at or FOREVER, counts=False)

    def signal(self, job_id: int, name: str, value: int) -> None:
        self.signals.setdefault(job_id, []).append((name, value))
        job = self.jobs[job_id]
        is_awaited = any(
            step.kind == "wait" and step.status == "waiting" and step.name == name
            for step in self.steps.get(job_id, [])
        )
        waits_for_retry = bool(job.past) and job.past[-1].status == "failed"
        if job.status == "scheduled" and is_awaited and not waits_for_retry:
            job.run_at = min(job.run_at, self._now())


class StepMachine(QueueMachine):
    model: ModelStepQueue

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.model = ModelStepQueue(self.clock.now)

    @precondition(lambda self: self._able())
    @rule(pick=PICK)
    def run_a_step(self, pick: int) -> None:
        claim = pick_one(self._able(), pick)
        steps = self.model.steps.setdefault(claim.job_id, [])
        steps.append(ModelStep("step", f"step {len(steps)}", "finished", result=len(steps)))
        self._record(claim, len(steps), finished=True, result=str(steps[-1].result))

    @precondition(lambda self: self._owned(self.worker_claims))
    @rule(pick=PICK, seconds=st.sampled_from([5, 60]))
    def sleep(self, pick: int, seconds: int) -> None:
        claim = pick_one(self._owned(self.worker_claims), pick)
        step = self.model.open_step(claim.job_id)
        if step is None:
            step = ModelStep("sleep", "", "waiting", self.clock.now() + timedelta(seconds=seconds))
            steps = self.model.steps.setdefault(claim.job_id, [])
            steps.append(step)
            written = self._record(claim, len(steps), delay_ms=seconds * 1000)
            assert written.due_at_ms == _ms(step.due_at)
        if step.kind == "sleep":
            self._suspend(claim, step)

    @precondition(lambda self: self._owned(self.worker_claims))
    @rule(pick=PICK, name=NAMES, seconds=st.sampled_from([None, 60]))
    def wait(self, pick: int, name: str, seconds: int | None) -> None:
        claim = pick_one(self._owned(self.worker_claims), pick)
        step, steps = self.model.open_step(claim.job_id), self.model.steps.setdefault(claim.job_id, [])
        if step is None:
            due_at = None if seconds is None else self.clock.now() + timedelta(seconds=seconds)
            step = ModelStep("wait", name, "waiting", due_at)
            steps.append(step)
        elif step.kind == "sleep":
            return
        self.model.receive(claim.job_id, step)
        written = self._record(claim, len(steps), due_at_ms=_ms(step.due_at))
        assert written.status == step.status
        if step.status == "waiting":
            self._suspend(claim, step)

    @precondition(lambda self: self._lost(self.worker_claims))
    @rule(pick=PICK)
    def run_a_step_of_a_lost_attempt(self, pick: int) -> None:
        claim = pick_one(self._lost(self.worker_claims), pick)
        try:
            self._written(claim, StepWrite(*claim.ready.fence, 1, 1, StepKind.STEP, "lost", finished=True))
        except LeaseLost:
            return
        raise AssertionError(f"job {claim.job_id} is no longer the worker's, and yet a step was written")

    @precondition(lambda self: self.model.jobs)
    @rule(pick=PICK, name=NAMES)
    def signal(self, pick: int, name: str) -> None:
        job_id, value = pick_one(sorted(self.model.jobs), pick), next(self.tokens)
        try:
            self.jobs.signal(job_id, name, value)
        except WrongState:
            assert self.model.jobs[job_id].finished
        else:
            assert not self.model.jobs[job_id].finished
            self.model.signal(job_id, name, value)

    def _able(self) -> list[WorkerClaim]:
        return [one for one in self._owned(self.worker_claims) if self.model.open_step(one.job_id) is None]

    def _record(self, claim: WorkerClaim, position: int, **fields: object) -> StepWritten:
        self._start(claim)
        step = self.model.steps[claim.job_id][position - 1]
        common = (*claim.ready.fence, claim.ready.attempt, position, StepKind(step.kind), step.name)
        return self._written(claim, StepWrite(*common, **fields))  # type: ignore[arg-type]

    def _written(self, claim: WorkerClaim, write: StepWrite) -> StepWritten:
        queue = queue_of(self.jobs)
        return queue.run(Write(record_one, queue.dialect, write))

    def _suspend(self, claim: WorkerClaim, step: ModelStep) -> None:
        self._start(claim)
        suspend = Suspend(_ms(step.due_at), waits=step.kind == "wait")
        assert claim.worker.settle(claim.ready, Raised(suspend, "", ""))
        self.model.suspend(claim.job_id, step)
        self.model.stage()

    @invariant()
    def steps_and_signals_agree(self) -> None:
        with_steps = [job_id for job_id, steps in self.model.steps.items() if steps]
        compare(
            {job_id: [_stored(step) for step in self.jobs.steps(job_id)] for job_id in with_steps},
            {job_id: [self._modelled(step) for step in self.model.steps[job_id]] for job_id in with_steps},
        )
        assert self._count("rowcall_step") == sum(map(len, self.model.steps.values()))
        assert self._count("rowcall_signal") == sum(map(len, self.model.signals.values()))

    def _modelled(self, step: ModelStep) -> tuple[object, ...]:
        status = "finished" if self.model.has_slept(step) else step.status
        return step.kind, step.name, status, step.due_at, step.result


def _ms(at: datetime | None) -> int | None:
    return None if at is None else milliseconds_of(at)


def _stored(step: RecordedStep) -> tuple[object, ...]:
    assert (step.status is StepStatus.WAITING) == (step.finished_at is None)
    return step.kind, step.name, step.status, step.due_at, step.result
