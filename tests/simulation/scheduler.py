"""Runs the threads of many simulated processes in one thread, under virtual time, and decides which of them runs.

Each simulated thread is a greenlet, an *actor*. It runs until it waits, or until one of its *points*: a statement, or a
turn of an event loop. At each point the scheduler may let another actor run, or let a fault happen. These decisions are
noted by the number of the point, and can be replayed: without any, the schedule is calm and fair.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import traceback
from collections import deque
from collections.abc import Callable
from typing import Protocol

from greenlet import getcurrent, greenlet

from rowcall.queue import Backend

POINT_SECONDS = 0.0001
"""Of virtual time, for each point: so an actor that never waits lets time pass, too."""
WAIT_SECONDS = 0.00001
"""Of virtual time, for each wait: a thread that waits for nothing again and again lets time pass, too."""
MOST_WAITS = 20_000
"""Of one process."""
QUANTUM = 50
"""Points of one actor in a row while others wait, if nothing decides otherwise."""
NEVER = float("inf")


class Killed(BaseException):
    """Ends the actors that are left when a world ends."""


class Transacting(Protocol):
    """A connection that the process uses."""

    @property
    def in_transaction(self) -> bool: ...


class Process:
    """A simulated process: its actors, and what the kernel takes back when it dies."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.dead = False
        self.frozen_until = 0.0
        self.held = False
        """Whether it is stopped for good."""
        self.points = 0
        self.waits = 0
        self.connections: list[Transacting] = []
        self.at_death: list[Callable[[], None]] = []
        self.at_exit: list[Callable[[], None]] = []
        self.backend: Backend
        """Of its queue."""

    def may_run(self, now: float) -> bool:
        return not (self.dead or self.held or self.frozen_until > now)

    @property
    def in_transaction(self) -> bool:
        return any(connection.in_transaction for connection in self.connections)


class Actor:
    def __init__(self, name: str, process: Process, run: Callable[[], object]) -> None:
        self.name = name
        self.process = process
        self.run = run
        self.greenlet: greenlet | None = None
        self.ended = False
        self.ready = True
        self.woken = False
        self.wait_number = 0
        self.event_loop: asyncio.AbstractEventLoop | None = None


class Decider(Protocol):
    """What happens at a point."""

    def switch(self, number: int) -> int | None:
        """Return a number that says which of the others runs next; None for the usual one."""

    def note_switch(self, number: int, other: int, chosen: Actor) -> None: ...

    def fault(self, number: int, actor: Actor, where: str) -> None:
        """Let a fault happen, or not."""


class Scheduler:
    def __init__(self, decider: Decider, *, most_points: int) -> None:
        self.now = 1000.0
        self.number = 0
        """Of the next point."""
        self.trace: list[str] = []
        self.keeps_trace = False
        self._most_points = most_points
        self._decider = decider
        self._ready: deque[Actor] = deque()
        self._timers: list[tuple[float, int, Actor | None, int]] = []
        self._order = itertools.count()
        self._hub = getcurrent()
        self._in_a_row = 0
        self._actors: list[Actor] = []
        self.current: Actor | None = None
        self._until = NEVER
        self.is_closing = False
        self.problems: list[str] = []

    # what actors call

    def spawn(self, name: str, process: Process, run: Callable[[], object]) -> Actor:
        actor = Actor(name, process, run)
        actor.greenlet = greenlet(lambda: self._run_actor(actor), self._hub)
        self._actors.append(actor)
        self._ready.append(actor)
        return actor

    def point(self, where: str) -> None:
        """Let time pass, and perhaps another actor or a fault have its turn."""
        actor = self.current
        if actor is None or self.is_closing:
            self.check_closing()
            return
        number = self._count()
        self.now += POINT_SECONDS
        actor.process.points += 1
        self._in_a_row += 1
        if self.keeps_trace:
            self.note(f"{number}: {where}")
        if number > self._most_points:
            self.stop(f"more than {self._most_points} points, of {actor.process.name} {actor.name} at last")
        self._decider.fault(number, actor, where)
        if not actor.process.may_run(self.now):
            self._ready.append(actor)
            self._leave()
        elif self._ready or (self._timers and self._timers[0][0] <= self.now):
            number = self._count()  # another one: a fault may have happened at the last
            other = self._decider.switch(number)
            if other is not None or self._in_a_row >= QUANTUM:
                self._ready.append(actor)
                chosen = self._chosen_of(self._eligible(), number, other)
                if chosen is not actor:
                    self._leave(chosen)

    def block(self, until: float = NEVER) -> bool:
        """Wait until `wake` is called for this actor, or until a time. Return whether it was woken."""
        actor = self.current
        if actor is None or self.is_closing:
            self.check_closing()
            return False
        actor.ready = False
        actor.wait_number += 1
        if until < NEVER:
            heapq.heappush(self._timers, (max(until, self.now), next(self._order), actor, actor.wait_number))
        self._leave()
        return actor.woken

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        actor = self.current
        who = f"{actor.process.name} {actor.name}" if actor is not None else ""
        self.trace.append(f"{self.now - 1000:.4f} {who} {' '.join(what.split())}")

    def note_wait(self) -> None:
        self.now += WAIT_SECONDS
        if self.current is not None:
            process = self.current.process
            process.waits += 1
            if process.waits > MOST_WAITS and not self.problems:
                self.stop(f"{process.name} spins: {self.current.name} waits again and again")

    def sleep(self, seconds: float) -> None:
        self.note_wait()
        until = self.now + max(0.0, seconds)
        while self.now < until and not self.is_closing:
            self.block(until)
        self.check_closing()

    def wake(self, actor: Actor) -> None:
        if not actor.ready:
            self._make_ready(actor, woken=True)

    def _make_ready(self, actor: Actor, *, woken: bool) -> None:
        actor.ready = True
        actor.woken = woken
        actor.wait_number += 1
        if not actor.ended:
            self._ready.append(actor)

    def stop(self, problem: str) -> None:
        """End the world because of a problem."""
        self.problems.append(problem)
        actor = self.current
        if actor is not None:
            self._ready.append(actor)
            self._leave()

    def _count(self) -> int:
        number, self.number = self.number, self.number + 1
        return number

    def check_closing(self) -> None:
        if self.is_closing:
            raise Killed

    # what the world calls

    def run(self, is_over: Callable[[], bool], until: float) -> None:
        """Run until `is_over()`, asked whenever an actor is chosen, or until a time."""
        self._until = until
        chosen: Actor | None = None
        while not self.problems and self.now < until and not is_over():
            actor = chosen or self._next()
            if actor is None:
                return
            chosen = self._switch_to(actor)
        if chosen is not None:
            self._ready.appendleft(chosen)

    def freeze(self, process: Process, seconds: float) -> None:
        process.frozen_until = self.now + seconds
        heapq.heappush(self._timers, (process.frozen_until, next(self._order), None, 0))

    def kill(self, process: Process) -> None:
        """SIGKILL: none of its actors runs again. The kernel frees what it held."""
        if process.dead:
            return
        process.dead = True
        for release in process.at_death:
            release()

    def close(self) -> None:
        """End all actors that are left. Whatever they touch raises `Killed`."""
        self.is_closing = True
        for actor in self._actors:
            left = actor.greenlet
            while left is not None and not actor.ended and not left.dead and left:
                self._enter(actor)
                try:
                    left.throw(Killed)
                except BaseException:
                    break
            actor.greenlet = None
        self.current = None
        asyncio._set_running_loop(None)

    # choosing

    def _next(self) -> Actor | None:
        """Return who runs next. If all wait, time passes until the first of them is due."""
        while True:
            eligible = self._eligible()
            if eligible:
                number = self._count()
                return self._chosen_of(eligible, number, self._decider.switch(number))
            if not self._timers:
                return None
            if self._timers[0][0] > self._until:
                self.now = self._until
                return None
            self.now = max(self.now, self._timers[0][0])

    def _eligible(self) -> list[Actor]:
        """Return who may run, the one first that has waited for the longest time."""
        while self._timers and self._timers[0][0] <= self.now:
            _, _, actor, wait_number = heapq.heappop(self._timers)
            if actor is not None and not actor.ready and actor.wait_number == wait_number:
                self._make_ready(actor, woken=False)
        now = self.now
        return [actor for actor in self._ready if actor.process.may_run(now)]

    def _chosen_of(self, eligible: list[Actor], number: int, other: int | None) -> Actor:
        chosen = eligible[0]
        if other is not None:
            if len(eligible) > 1:
                chosen = eligible[1 + other % (len(eligible) - 1)]
            self._decider.note_switch(number, other, chosen)
        self._ready.remove(chosen)
        return chosen

    # switching

    def _leave(self, chosen: Actor | None = None) -> None:
        self._hub.switch(chosen)
        self.check_closing()

    def _enter(self, actor: Actor) -> None:
        self.current = actor
        self._in_a_row = 0
        asyncio._set_running_loop(actor.event_loop)

    def _switch_to(self, actor: Actor) -> Actor | None:
        assert actor.greenlet is not None
        self._enter(actor)
        chosen = actor.greenlet.switch()
        actor.event_loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        self.current = None
        return chosen if isinstance(chosen, Actor) else None

    def _run_actor(self, actor: Actor) -> None:
        try:
            actor.run()
        except Exception:
            problem = traceback.format_exc()
            self.problems.append(f"{actor.process.name}, {actor.name} ended with an error:\n{problem}")
        finally:
            actor.ended = True
