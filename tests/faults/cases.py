"""A case: one call, whose n-th statement fails in one way. Then a healthy worker finishes, and all is checked."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rowcall.domain.errors import RowcallError
from rowcall.drivers.group_commit import NothingWritten
from tests.conformance.notes import Notes
from tests.faults.call import Call, Threads
from tests.faults.calls import calls, enqueued_by
from tests.faults.injection import DEADLY, OF_COMMITS, Fault, Injector, faults_of, injected, slow_commit_at
from tests.faults.world import App, Template, app_at, contents, copied, finish, new_clock, plain_database, snapshot
from tests.observe.plain_sql import PlainDatabase

LONGEST_SECONDS = 30.0
DELETING = ("clear", "delete", "caller's delete")


class Healthy(NamedTuple):
    """A call without a fault: the statements that it sends, and what it changes."""

    sent: list[str]
    commits: set[int]
    """The numbers of the statements that may commit."""
    before: Counter[object]
    after: Counter[object]
    is_atomic: bool
    """Whether it is one transaction: then a fault leaves all of it, or nothing."""


class Case(NamedTuple):
    call: Call
    number: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.call.name}, statement {self.number}, {self.fault}"


class Cases:
    """All cases of one database."""

    def __init__(self, template: Template, folder: Path) -> None:
        self._template = template
        self._folder = folder
        self._injector = Injector()
        self._healthy: dict[str, Healthy] = {}
        self._before: Counter[object] = Counter()
        """What was there when the last call without a fault began."""
        self.calls = calls(template.scene)

    def of(self, call: Call) -> Iterator[Case]:
        """Yield each statement with each fault. A fault that changes what is sent does not change their number."""
        for number in range(1, len(self.healthy(call).sent) + 1):
            for fault in faults_of(self._template.kind):
                if fault not in OF_COMMITS or number in self.healthy(call).commits:
                    yield Case(call, number, fault)

    def healthy(self, call: Call) -> Healthy:
        if call.name not in self._healthy:
            with copied(self._template) as url, closing(plain_database(url)) as database:
                self._run(url, Case(call, 0, Fault.REFUSED), self._new_notes())
                writes, sent, commits = self._injector.writes, self._injector.sent, self._injector.commits
                self._healthy[call.name] = Healthy(sent, commits, self._before, snapshot(database), writes <= 1)
        return self._healthy[call.name]

    def problems(self, case: Case) -> list[str] | None:
        """Run a case, and return what is wrong after it; None if the statement did not come this time."""
        healthy, finished, notes = self.healthy(case.call), self._finished, self._new_notes()
        with copied(self._template) as url:
            outcome = self._fork(url, case, notes) if case.fault in DEADLY else self._run(url, case, notes)
            problems = list(outcome.problems)
            with closing(plain_database(url)) as database:
                if healthy.is_atomic and case.call.is_steady:
                    problems += _partly_done(healthy, snapshot(database), outcome)
                if outcome.is_known and outcome.error is None:
                    problems += _claims_left(database)
                left = case.call.name, contents(database)
            is_alone = case.call.is_steady or case.fault not in DEADLY  # no dead worker is left in a file
            if not (is_alone and (left in finished or ("", left[1]) in finished)):
                problems += finish(url, notes, new_clock(), after_lease=case.fault in OF_COMMITS)
                if not problems:
                    finished.add(left)
        if not outcome.was_reached:
            if not case.call.is_steady and not problems:
                return None
            problems.append("the call did not send this statement")
        return [f"{case}: {problem}" for problem in problems]

    @cached_property
    def _finished(self) -> set[tuple[str, bytes]]:
        """What a healthy worker has finished without a problem, by calls: it needs to do so once. The clock stands
        still, that many cases of a call leave the same rows. Without a call: the world as it was.
        """
        with copied(self._template) as url:
            with closing(plain_database(url)) as database:
                untouched = contents(database)
            problems = list(finish(url, self._new_notes(), new_clock()))
            assert not problems, problems
        return {("", untouched)}

    def _new_notes(self) -> Notes:
        path = self._folder / "notes-of-case"
        shutil.copyfile(self._folder / "notes", path)
        return Notes(path)

    def _run(self, url: str, case: Case, notes: Notes) -> Outcome:
        with ExitStack() as stack:
            if case.fault in OF_COMMITS:
                self._injector.slow_commit = stack.enter_context(closing(slow_commit_at(url)))
            stack.enter_context(injected(self._injector))
            app = stack.enter_context(closing(app_at(url, notes)))
            app.jobs.stats()  # connects
            for job in case.call.prepare(app):
                notes.write("enqueued", job.id)
            if not case.number:
                with closing(plain_database(url)) as database:
                    self._before = snapshot(database)
            try:
                outcome = self._call(app, case, notes)
            finally:
                self._injector.disarm()
        left = [thread.name for thread in app.threads()]
        return outcome._replace(problems=(*outcome.problems, f"threads are left: {left}")) if left else outcome

    def _call(self, app: App, case: Case, notes: Notes) -> Outcome:
        in_loop = case.fault is Fault.CANCELLED
        if case.call.name == "clear":
            notes.write("clearing", 0)
        if case.call.name.startswith(DELETING):
            for job in app.jobs.list(limit=100).jobs:
                notes.write("deleting", job.id)
        own = threading.get_ident()
        counts: dict[Threads, Callable[[], bool]] = {
            Threads.ALL: lambda: True,
            Threads.OWN: lambda: in_loop or threading.get_ident() == own,
            Threads.OTHERS: lambda: in_loop or threading.get_ident() != own,
        }
        self._injector.arm(case.number, case.fault, counts[case.call.threads])
        try:
            result = asyncio.run(self._cancelled(app, case)) if in_loop else case.call.make(app)
        except (RowcallError, TimeoutError, asyncio.CancelledError) as error:
            return Outcome(error, was_reached=self._injector.reached)
        except Exception as error:
            return Outcome(error, problems=(f"it raised {error!r}",))
        finally:
            self._injector.disarm()
        for job in enqueued_by(result):
            notes.write("enqueued", job.id)
        return Outcome(None, was_reached=self._injector.reached)

    async def _cancelled(self, app: App, case: Case) -> object:
        """Cancel the call while its statement runs: the statement ends after the cancellation was delivered."""
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(case.call.amake(app))
        loop_thread = threading.get_ident()

        def cancel() -> None:
            if threading.get_ident() == loop_thread:
                task.cancel()
                return
            delivered = threading.Event()

            def deliver() -> None:
                task.cancel()
                loop.call_soon(delivered.set)

            loop.call_soon_threadsafe(deliver)
            delivered.wait(LONGEST_SECONDS)

        self._injector.cancel = cancel
        return await task

    def _fork(self, url: str, case: Case, notes: Notes) -> Outcome:
        """Run it in a process that dies."""
        child = os.fork()
        if not child:
            logging.disable()
            try:
                self._run(url, case, notes)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return Outcome(None, is_known=False)
        return Outcome(None, is_known=False, was_reached=False)


class Outcome(NamedTuple):
    """How a call ended, as far as its caller knows."""

    error: BaseException | None
    is_known: bool = True
    was_reached: bool = True
    problems: tuple[str, ...] = ()


def _claims_left(database: PlainDatabase) -> Iterator[str]:
    """Yield what the workers of this process hold, although they have ended without an error."""
    held = database.ask(f"select job_id, worker from rowcall_claim where worker like '%:{os.getpid()}:%'")
    if held:
        yield f"workers that have ended hold jobs: {held}"


def _partly_done(healthy: Healthy, found: Counter[object], outcome: Outcome) -> Iterator[str]:
    if found not in (healthy.before, healthy.after):
        yield f"neither done nor undone: {_difference(healthy.before, found)}"
    elif outcome.is_known and outcome.error is None and found != healthy.after:
        yield f"it returned, and is not done: {_difference(healthy.after, found)}"
    elif isinstance(outcome.error, NothingWritten) and found != healthy.before:
        yield f"{outcome.error!r}, but it is done: {_difference(healthy.before, found)}"


def _difference(expected: Counter[object], found: Counter[object]) -> str:
    changed = {key: (expected[key], found[key]) for key in expected | found if expected[key] != found[key]}
    return ", ".join(f"{key}: {before} → {after}" for key, (before, after) in changed.items())
