"""The calls that meet faults: every public method that has an async twin, found by looking, with values for its
parameters by their names. A new method is here without being listed; one with a new parameter says what is missing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from rowcall import Flow, Job, Rowcall
from rowcall.app import queue_of
from rowcall.domain.push_signatures import callback_token
from rowcall.drivers.uncancellable import finish_in_thread
from rowcall.queue import Queue
from rowcall.worker.registrar import Registrar
from rowcall.worker.settings import Settings
from rowcall.worker.upkeep.pruning import PruningDuties
from rowcall.worker.upkeep.recovery import Recovery
from tests.faults.world import NAME, PUSH, App, Scene

STATES = ("pending", "scheduled", "claimed", "succeeded", "failed", "keyed", "blocker", "blocked", "waiting")
OPTIONS: Mapping[str, Mapping[str, object]] = {
    "add_schedule": {"every": 60},
    "enqueue": {"queue": "new"},
    "edit": {"priority": 3},
    "pause": {"queue": "default"},
    "result": {"timeout": 0},
    "resume": {"queue": "default"},
    "reschedule": {"delay": 60},
    "set_priority": {"priority": 3},
    "stack": {"timeout": 0.001},
}
"""What a method needs beyond its parameters without a default."""
LEFT_OUT = {
    "clear": "deletes everything, running jobs too: nothing is left to check",
    "close": "does not talk to the database in a transaction",
    "events": "follows for ever; the reads of a reader are those of `timeline`",
    "rekey": "needs a queue with keys: tests/crash/cancelled_calls.py",
}


class Call(NamedTuple):
    """A call by name. `make` returns it for sync code, `amake` for async code."""

    name: str
    make: Callable[[App], object]
    amake: Callable[[App], Awaitable[object]]


def methods() -> dict[str, inspect.Signature]:
    """Return the public methods with an async twin."""
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(Rowcall, callable)
        if not name.startswith("_") and hasattr(Rowcall, f"a{name}") and name not in LEFT_OUT
    }


def calls(scene: Scene) -> list[Call]:
    of_methods = (call for name, signature in methods().items() for call in _of_method(name, signature, scene))
    return [*of_methods, *OF_TASKS, *OF_WORKERS]


def _of_method(name: str, signature: inspect.Signature, scene: Scene) -> list[Call]:
    needed = [parameter.name for parameter in signature.parameters.values() if _is_needed(parameter)]
    values = _values(scene)
    missing = set(needed) - values.keys() - {"job"}
    assert not missing, f"{name} has parameters without a value in tests/faults/calls.py: {sorted(missing)}"
    arguments = {parameter: values[parameter] for parameter in needed if parameter != "job"} | dict(
        OPTIONS.get(name, {})
    )
    if "job" not in signature.parameters:
        return [_call(name, name, arguments)]
    return [_call(f"{name} {state}", name, {"job": scene.jobs[state], **arguments}) for state in STATES]


def _is_needed(parameter: inspect.Parameter) -> bool:
    named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return named and parameter.default is parameter.empty and parameter.name != "self"


def _values(scene: Scene) -> dict[str, object]:
    job = scene.jobs["claimed"]
    return {
        "chain": scene.chain,
        "error": "TEST:CODE",
        "event": NAME,
        "name": NAME,
        "steps": None,
        "task": "plain",
        "token": callback_token(PUSH.secrets, job.id, job.lease, job.holder),
        "worker": "hand:2:1",
    }


def _call(title: str, name: str, arguments: Mapping[str, Any]) -> Call:
    def bound(app: App, method: str) -> Any:
        steps = {"steps": [app.step.bind(), app.step.bind()]} if "steps" in arguments else {}
        return getattr(app.jobs, method)(**{**arguments, **steps})

    return Call(title, lambda app: bound(app, name), lambda app: bound(app, f"a{name}"))


# tasks, flows, transactions


def _flow(app: App) -> Flow:
    flow = app.jobs.flow()
    root = flow.add(app.step.bind())
    flow.add_chain([app.step.bind(), app.step.bind()], after=root)
    return flow


def _block(app: App) -> list[Job]:
    with app.jobs.transaction() as tx:
        first = tx.enqueue("keyed", {"name": "b"})
        return [first, app.step.using(after=first).enqueue()]


async def _ablock(app: App) -> list[Job]:
    async with app.jobs.transaction() as tx:
        first = await tx.aenqueue("keyed", {"name": "b"})
        return [first, await app.step.using(after=first).aenqueue()]


TWO: list[dict[str, object]] = [{}, {}]
OF_TASKS = (
    Call("task.enqueue", lambda app: app.step.enqueue(), lambda app: app.step.aenqueue()),
    Call(
        "task.enqueue_many", lambda app: app.step.enqueue_many([{}, {}]), lambda app: app.step.aenqueue_many([{}, {}])
    ),
    Call("flow.enqueue", lambda app: _flow(app).enqueue(), lambda app: _flow(app).aenqueue()),
    Call("transaction", _block, _ablock),
)


# what a worker does next to its rounds, which are in `drain`


def _recover(queue: Queue) -> None:
    Recovery(queue).check()


def _free_held(queue: Queue) -> None:
    Recovery(queue).held_jobs.check_all()


def _come_and_go(queue: Queue) -> None:
    registrar = Registrar(queue, Settings())
    registrar.register()
    registrar.retire(set)


def _upkeep(queue: Queue) -> None:
    PruningDuties(queue).round()


def _of_worker(work: Callable[[Queue], None]) -> Call:
    def make(app: App) -> None:
        work(queue_of(app.jobs))

    async def amake(app: App) -> None:
        await finish_in_thread(lambda: make(app))

    return Call(f"worker{work.__name__}", make, amake)


OF_WORKERS = tuple(_of_worker(work) for work in (_recover, _free_held, _come_and_go, _upkeep))


def enqueued_by(result: object) -> list[Job]:
    """Return the jobs that a call has enqueued, as far as its result says: they must not be lost."""
    match result:
        case Job() as job if job.attempt == 0 and not job.duplicate:
            return [job]
        case [*results]:
            return [job for one in results for job in enqueued_by(one)]
        case _:
            return []
