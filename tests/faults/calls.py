"""The calls that meet faults: every public method that has an async twin, found by looking, with values for its
parameters by their names. A new method is here without being listed; one with a new parameter says what is missing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from rowcall import Batch, Flow, Job, Rowcall, actions
from rowcall.app import queue_of
from rowcall.declare import option_table
from rowcall.domain.push_signatures import callback_token
from tests.faults.call import Call, Threads, in_thread
from tests.faults.handlers import caller_connection
from tests.faults.worker_calls import worker_calls
from tests.faults.world import NAME, PUSH, QUESTION, App, Scene, more

STATES = (
    "pending",
    "scheduled",
    "claimed",
    "succeeded",
    "failed",
    "keyed",
    "blocker",
    "blocked",
    "waiting",
    "parent",
    "child",
)
OPTIONS: Mapping[str, Mapping[str, object]] = {
    "add_schedule": {"every": 60},
    "enqueue": {"queue": "new"},
    "edit": {"priority": 3},
    "pause": {"queue": "default"},
    "reset_limit": {"name": "slow"},
    "set_limit": {"name": "slow", "rate": 1},
    "result": {"timeout": 0},
    "resume": {"queue": "default"},
    "reschedule": {"delay": 60},
    "set_priority": {"priority": 3},
    "stack": {"timeout": 0.001},
}
"""What a method needs beyond its parameters without a default."""
OPTION_MODULES = (actions, option_table)
"""Where the options of methods are declared."""
LEFT_OUT = {
    "close": "sends no statement",
    "events": "follows for ever: `EVENTS` reads once",
    "rekey": "needs keys: `REKEY` has them",
    "stream": "follows a job until it ends: `STREAM` reads one that has ended",
}


def twins(public: type) -> dict[str, inspect.Signature]:
    """Return the public methods with an async twin."""
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(public, callable)
        if not name.startswith("_") and hasattr(public, f"a{name}")
    }


def methods() -> dict[str, inspect.Signature]:
    return {name: signature for name, signature in twins(Rowcall).items() if name not in LEFT_OUT}


def calls(scene: Scene) -> list[Call]:
    of_methods = (call for name, signature in methods().items() for call in _of_method(name, signature, scene))
    return [
        *of_methods,
        _answer(scene.jobs["asking"]),
        *OF_TASKS,
        MIGRATE,
        REKEY,
        EVENTS,
        STREAM,
        *caller_calls(scene),
        *worker_calls(),
    ]


def caller_calls(scene: Scene) -> list[Call]:
    """Return the calls that can join a transaction of the app, on a connection of the app."""
    return [
        in_thread(f"caller's {title}", partial(_on_caller, name, arguments))
        for name, signature in methods().items()
        if _joins(signature)
        for title, arguments in _arguments(name, signature, scene)
    ]


def _joins(signature: inspect.Signature) -> bool:
    """Return whether it takes a connection, perhaps among its options."""
    options = [re.findall(r"Unpack\[(\w+)\]", str(one.annotation)) for one in signature.parameters.values()]
    names = {name for found in options for name in found}
    typed = [getattr(module, name) for module in OPTION_MODULES for name in names if hasattr(module, name)]
    return "connection" in signature.parameters or any("connection" in one.__annotations__ for one in typed)


def _on_caller(name: str, arguments: Mapping[str, Any], app: App) -> object:
    with caller_connection(app.url) as connection:
        return getattr(app.jobs, name)(**_with_steps(arguments, app), connection=connection)


def _of_method(name: str, signature: inspect.Signature, scene: Scene) -> list[Call]:
    return [_call(title, name, arguments) for title, arguments in _arguments(name, signature, scene)]


def _arguments(name: str, signature: inspect.Signature, scene: Scene) -> list[tuple[str, Mapping[str, Any]]]:
    """Return titles, and the arguments of a call: one for each kind of job, where it is about a job."""
    needed = [parameter.name for parameter in signature.parameters.values() if _is_needed(parameter)]
    values = _values(scene)
    missing = set(needed) - values.keys() - {"job"}
    assert not missing, f"{name} has parameters without a value in tests/faults/calls.py: {sorted(missing)}"
    arguments = {parameter: values[parameter] for parameter in needed if parameter != "job"} | dict(
        OPTIONS.get(name, {})
    )
    if "job" not in signature.parameters:
        return [(name, arguments)]
    by_id = name == "complete"  # a job that the caller has not claimed
    about_one: list[tuple[str, Mapping[str, Any]]] = [
        (f"{name} {state}", {"job": job.id if by_id and state != "claimed" else job, **arguments})
        for state, job in ((state, scene.jobs[state]) for state in STATES)
    ]
    if signature.parameters["job"].default is None:  # it also takes a filter
        return [*about_one, (f"{name} many", {"queue": "default", **arguments})]
    return about_one


def _is_needed(parameter: inspect.Parameter) -> bool:
    named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return named and parameter.default is parameter.empty and parameter.name != "self"


def _values(scene: Scene) -> dict[str, object]:
    job = scene.jobs["claimed"]
    return {
        "batch": scene.batch,
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
        return getattr(app.jobs, method)(**_with_steps(arguments, app))

    call = Call(title, lambda app: bound(app, name), lambda app: bound(app, f"a{name}"))
    return call._replace(threads=Threads.OWN, is_steady=False) if name == "drain" else call


def _with_steps(arguments: Mapping[str, Any], app: App) -> Mapping[str, Any]:
    return {**arguments, "steps": [app.step.bind(), app.step.bind()]} if "steps" in arguments else arguments


def _answer(job: Job) -> Call:
    return Call(
        "signal, an answer",
        lambda app: app.jobs.signal(job, QUESTION, "yes", key="one"),
        lambda app: app.jobs.asignal(job, QUESTION, "yes", key="one"),
    )


# tasks, flows, transactions


def _flow(app: App) -> Flow:
    flow = app.jobs.flow()
    root = flow.add(app.step.bind())
    flow.add_chain([app.step.bind(), app.step.bind()], after=root)
    return flow


def _of_batch(method: str) -> Call:
    """Return a call about the batch of the world, of which two jobs have ended; or one that deletes an empty batch."""

    def bound(app: App, name: str) -> Any:
        batch = Batch(queue_of(app.jobs), 2 if method == "delete" else 1, NAME)
        return getattr(batch, name)(*([app.step.bind()] if method == "add" else []))

    def prepare(app: App) -> list[Job]:
        if method != "delete":
            return []
        app.jobs.batch("empty", on_finish="step").seal()
        return [max(app.jobs.list(limit=100).jobs, key=lambda job: job.id)]

    return Call(f"batch.{method}", lambda app: bound(app, method), lambda app: bound(app, f"a{method}"), prepare)


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
    *map(_of_batch, sorted(twins(Batch))),
)


# tables, and readers of events


def _migrate_more(app: App) -> None:
    """Make the tables of another prefix, and use them."""
    with more(app.url) as jobs:
        jobs.migrate()
        jobs.enqueue("plain")


def _read_events(app: App) -> None:
    """Read what a reader finds at its first look, and at the next."""
    with app.jobs.events() as events:
        app.jobs.enqueue("plain", queue="events")
        assert next(events).event == "ENQUEUED"


def _prepare_stream(app: App) -> list[Job]:
    job = app.jobs.enqueue("ctx_stream", queue="streamed")
    app.jobs.drain(queues=["streamed"])
    return [job]


def _read_stream(app: App) -> None:
    (job,) = app.jobs.list(type="ctx_stream").jobs
    assert [*app.jobs.stream(job)] == ["first", "second"]


def _prepare_rekey(app: App) -> list[Job]:
    _migrate_more(app)
    return []


def _rekey(app: App) -> None:
    with more(app.url, rekeyed=True) as jobs:
        jobs.rekey()


MIGRATE = in_thread("migrate more", _migrate_more)
REKEY = in_thread("rekey", _rekey, _prepare_rekey)
EVENTS = in_thread("events", _read_events, is_steady=False)
STREAM = in_thread("stream", _read_stream, _prepare_stream, is_steady=False)


def enqueued_by(result: object) -> list[Job]:
    """Return the jobs that a call has enqueued, as far as its result says: they must not be lost."""
    match result:
        case Job() as job if job.attempt == 0 and not job.duplicate:
            return [job]
        case [*results]:
            return [job for one in results for job in enqueued_by(one)]
        case _:
            return []
