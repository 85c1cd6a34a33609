"""The pytest plugin of Rowcall, which is on when Rowcall is installed. See docs/testing.md.

It is a separate package because pytest imports it in every run: `rowcall` is imported only by a test that uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rowcall import Rowcall
    from rowcall.testing import TravelClock

_APP = "rowcall_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "queues that rowcall_clean empties, as module:name; default: every Rowcall in a module's variables"
    parser.addini(_APP, about, type="args", default=[])


@pytest.fixture
def rowcall_url() -> str:
    """Where `rowcall_clean` puts the queue. Override it to use a real server; all jobs there are deleted."""
    return "sqlite:///:memory:"


@pytest.fixture
def rowcall_apps(pytestconfig: pytest.Config) -> list[Rowcall]:
    """The queues of the app: those of the option `rowcall_app`, or every `Rowcall` in a module's variables."""
    from rowcall.testing.clean_queue import queues_in_modules

    if named := pytestconfig.getini(_APP):
        return [_load(name) for name in named]
    found = queues_in_modules()
    if not found:
        pytest.fail(
            f"rowcall_clean: no imported module has a variable that is a Rowcall; import the app in the test, or set"
            f" {_APP} = app:jobs in the configuration of pytest",
            pytrace=False,
        )
    return found


@pytest.fixture
def rowcall_clock() -> TravelClock:
    """A clock that stands still. With `rowcall_clean`, `rowcall_clock.advance("1 day")` runs what becomes due."""
    from rowcall.testing import TravelClock

    return TravelClock()


@pytest.fixture
def rowcall_clean(rowcall_apps: list[Rowcall], rowcall_url: str, rowcall_clock: TravelClock) -> Iterator[list[Rowcall]]:
    """Let the app's own queues use an empty database in memory, and `rowcall_clock`, during this test."""
    from rowcall.testing import clean_queue

    with clean_queue(*rowcall_apps, url=rowcall_url, clock=rowcall_clock):
        yield rowcall_apps


@pytest.fixture
def rowcall_inline(rowcall_clean: list[Rowcall]) -> Iterator[list[Rowcall]]:
    """`rowcall_clean`, with jobs that run before `enqueue` returns."""
    from rowcall.testing import inline

    with inline(*rowcall_clean):
        yield rowcall_clean


def _load(name: str) -> Rowcall:
    import click

    from rowcall.cli.load import load

    try:
        return load(name)
    except click.UsageError as error:
        raise pytest.UsageError(f"{_APP}: {error.message}") from error
