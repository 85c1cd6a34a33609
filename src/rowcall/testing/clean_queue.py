"""An empty database and a fake clock for the queues of an app, for as long as one test runs."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from rowcall.app import Rowcall, config_at, queue_of
from rowcall.domain.config import Config
from rowcall.domain.errors import InvalidOption
from rowcall.operations.retention import delete_all
from rowcall.queue import Backend, Queue
from rowcall.testing.time_travel import TravelClock

IN_MEMORY = "sqlite:///:memory:"

clean_now: list[Queue] = []
"""The queues that are clean at the moment."""
_spare: weakref.WeakKeyDictionary[Rowcall, dict[str, Backend]] = weakref.WeakKeyDictionary()


@contextmanager
def clean_queue(*apps: Rowcall, url: str = IN_MEMORY, clock: TravelClock | None = None) -> Iterator[TravelClock]:
    """Let the queues use an empty database and a fake clock, and yield the clock.

        with clean_queue(jobs) as clock:
            send_email.using(delay=3600).enqueue("a@example.com")
            clock.advance("1 hour")

    The tasks, and the module-level `jobs` that the app imports, stay the same objects. Afterwards the queues use their
    own databases again. With `url`, **all jobs in that database are deleted first**.
    """
    clock = clock or TravelClock()
    with _swapped(apps, url, clock):
        for jobs in apps:
            queue_of(jobs).run(delete_all(queue_of(jobs), restart_ids=True))
        with clock.of(*apps):
            yield clock


@contextmanager
def _swapped(apps: tuple[Rowcall, ...], url: str, clock: TravelClock) -> Iterator[None]:
    swapped: list[Queue] = []
    try:
        for jobs in apps:
            queue = queue_of(jobs)
            if queue.is_swapped:
                raise InvalidOption("apps", f"{jobs!r} has a clean database already: use clean_queue once at a time")
            spare = _spare_of(jobs, url)
            spare.clock = clock
            queue.backend = spare
            swapped.append(queue)
            clean_now.append(queue)
        yield
    finally:
        for queue in reversed(swapped):
            clean_now.remove(queue)
            try:
                queue.close()
            finally:
                queue.backend = queue.own_backend


def _spare_of(jobs: Rowcall, url: str) -> Backend:
    """Return a backend at that URL. It is used again: emptying tables is quicker than making them."""
    kept = _spare.setdefault(jobs, {})
    if url not in kept:
        app = weakref.ref(jobs)

        def configure_again() -> Config:
            found = app()
            assert found is not None
            return config_at(found, url)

        kept[url] = Backend(configure_again)
    return kept[url]


def queues_in_modules() -> list[Rowcall]:
    """Return every `Rowcall` that is a variable of an imported module, each once."""
    queues: dict[int, Rowcall] = {}
    for module in list(sys.modules.values()):
        for value in list(getattr(module, "__dict__", {}).values()):
            if issubclass(type(value), Rowcall):  # not isinstance: a proxy may fail to say what it is
                queues[id(value)] = value
    return list(queues.values())
