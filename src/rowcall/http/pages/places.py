"""The navigation: the pages that every page links to."""

from __future__ import annotations

from typing import NamedTuple

from rowcall.http.endpoint import Call
from rowcall.operations.signals import count_asking
from rowcall.operations.stats import failed_jobs


class Place(NamedTuple):
    """A page of the navigation. `key` opens it, after a g."""

    page: str
    path: str
    label: str
    icon: str
    key: str


PLACES = (
    Place("overview", "/", "Overview", "overview", "o"),
    Place("jobs", "/jobs", "Jobs", "jobs", "j"),
    Place("waiting", "/waiting", "Waiting for you", "hand", "y"),
    Place("queues", "/queues", "Queues", "queues", "q"),
    Place("tasks", "/tasks", "Tasks", "tasks", "t"),
    Place("batches", "/batches", "Batches", "batches", "b"),
    Place("schedules", "/schedules", "Schedules", "clock", "s"),
    Place("limits", "/limits", "Limits", "limits", "l"),
    Place("workers", "/workers", "Workers", "workers", "w"),
    Place("errors", "/errors", "Errors", "errors", "e"),
    Place("storage", "/storage", "Storage", "storage", "d"),
)


async def nav_counts(call: Call) -> dict[str, int]:
    """Return the counts next to the names of pages. That of errors is in the title of the window, too."""
    return {"errors": await call.read(failed_jobs(call.queue)), "waiting": await call.read(count_asking(call.queue))}
