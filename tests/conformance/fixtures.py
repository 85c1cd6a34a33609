"""The fixtures of the cases. All of them depend on `new_store`, which the module of a database defines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from rowcall import Alerts, PushOptions, Retention, Rowcall
from rowcall.base.clock import Clock
from rowcall.testing.fake_clock import FakeClock
from rowcall.testing.process import ForkedProcess, PythonProcess
from tests.conformance.notes import Notes
from tests.conformance.store import Store, check_ready

PROGRAM = "tests.conformance.program"
ROOT = Path(__file__).parents[2]


class OpenQueue(Protocol):
    """Opens another queue on the same store, by the machine's clock or by one of the test's."""

    def __call__(
        self,
        *,
        clock: Clock | None = None,
        auto_migrate: bool = True,
        retention: Retention | None = None,
        mismatch_grace: float = 600,
        push: PushOptions | None = None,
        alerts: Alerts | None = None,
    ) -> Rowcall: ...


StartProgram = Callable[..., PythonProcess]


@pytest.fixture
def new_migrated_store(new_store: Callable[[], Store]) -> Callable[[], Store]:
    """Open a store for cases that do not mind whether the tables are there already; override it with quick copies."""
    return new_store


@pytest.fixture
def store(new_migrated_store: Callable[[], Store]) -> Iterator[Store]:
    store = new_migrated_store()
    yield store
    check_ready(store)


@pytest.fixture
def open_queue(store: Store) -> Iterator[OpenQueue]:
    with ExitStack() as opened:

        def open_one(
            *,
            clock: Clock | None = None,
            auto_migrate: bool = True,
            retention: Retention | None = None,
            mismatch_grace: float = 600,
            push: PushOptions | None = None,
            alerts: Alerts | None = None,
        ) -> Rowcall:
            queue = Rowcall(
                store.url,
                clock=clock,
                auto_migrate=auto_migrate,
                retention=retention,
                mismatch_grace=mismatch_grace,
                push=push,
                alerts=alerts,
            )
            return opened.enter_context(queue)

        yield open_one


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def jobs(open_queue: OpenQueue, clock: FakeClock) -> Rowcall:
    """A queue whose time is the test's."""
    return open_queue(clock=clock)


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """What the processes of the test noted."""
    return Notes(tmp_path / "notes")


@pytest.fixture
def start_program(store: Store, tmp_path: Path) -> Iterator[StartProgram]:
    """Starts the kit's program in a separate process; see `notes` for what it does."""
    with ExitStack() as started:

        def start(*arguments: str) -> PythonProcess:
            program = ForkedProcess("-m", PROGRAM, store.url, str(tmp_path / "notes"), *arguments, cwd=str(ROOT))
            return started.enter_context(program)

        yield start
