"""The tools that look. Texts, payloads and results are scrubbed as everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowcall.base.text import seconds_from_text
from rowcall.cli.commands.errors import error_groups, failing
from rowcall.cli.commands.jobs import job_as_json
from rowcall.cli.commands.show import everything_about
from rowcall.cli.commands.workers import workers_as_json
from rowcall.cli.mcp.docs_search import search_docs
from rowcall.cli.present.findings import findings
from rowcall.cli.target import Target
from rowcall.domain.errors import InvalidOption
from rowcall.overview.attention.queue_waits import queue_waits
from rowcall.overview.reasons import why
from rowcall.overview.scrub import scrubbed

MOST_JOBS = 100
DEFAULT_JOBS = 20

JsonObject = dict[str, object]


class ReadTools:
    """Each public method is a tool, which changes nothing."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def all(self) -> list[Callable[..., JsonObject]]:
        looks: list[Callable[..., JsonObject]] = [
            self.attention,
            self.queue_waits,
            self.why,
            self.jobs,
            self.job,
            self.errors,
            self.stats,
        ]
        return [*looks, self.limits, self.schedules, self.workers, self.search_docs]

    def attention(self) -> JsonObject:
        """List what needs a person, most urgent first: what is wrong, since when, the evidence, and what to do.

        The list is empty if all is well. Begin here.
        """
        return {"findings": findings(self._target)}

    def queue_waits(self) -> JsonObject:
        """Say for each queue with due jobs why they wait, most urgent reason first."""
        waits = self._target.queue.run(queue_waits(self._target.queue))
        return {"queues": {name: [self._scrubbed(one) for one in reasons] for name, reasons in waits.items()}}

    def why(self, id: int) -> JsonObject:
        """Say in one sentence why a job waits, or how it ended."""
        return {"why": self._scrubbed(self._target.queue.run(why(self._target.queue, id)))}

    def jobs(
        self,
        status: str | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        error_code: str | None = None,
        limit: int = DEFAULT_JOBS,
        cursor: str | None = None,
    ) -> JsonObject:
        """List jobs, newest first, at most 100 at a time.

        `status` is one of blocked, scheduled, pending, running, succeeded, failed, cancelled. An `error_code` that
        ends with * matches all codes that begin so. Pass `next_cursor` as `cursor` for the next page.
        """
        if not 1 <= limit <= MOST_JOBS:
            raise InvalidOption("limit", f"must be from 1 to {MOST_JOBS}, got {limit}")
        filters: dict[str, Any] = {"status": status, "queue": queue, "type": type, "tag": tag, "error_code": error_code}
        given = {name: value for name, value in filters.items() if value is not None}
        page = self._target.jobs.list(**given, limit=limit, cursor=cursor)
        return {"jobs": [job_as_json(self._scrubbed(job)) for job in page.jobs], "next_cursor": page.next_cursor}

    def job(self, id: int) -> JsonObject:
        """Show all about one job: why it waits, attempts with tracebacks, steps, blockers, dependents, timeline."""
        found = everything_about(self._target, id)
        return {**found._asdict(), "job": job_as_json(found.job)}

    def errors(self, window: str = "1h", type: str | None = None, error_code: str | None = None) -> JsonObject:
        """List why jobs failed, grouped by error code, and what fails now, including attempts that are retried.

        `window` is the period of what fails now: 90s, 5m, 1h, 2d.
        """
        listed = error_groups(self._target, DEFAULT_JOBS, type, error_code)
        now = failing(self._target, _seconds(window), DEFAULT_JOBS, type, error_code)
        return {"errors": listed, "failing": now}

    def stats(self, window: str = "5m") -> JsonObject:
        """Count jobs by state, queue and task, and show how fast they arrive and finish, and how long they take.

        `window` is the period of the rates: 90s, 5m, 1h, 2d.
        """
        return {"stats": self._target.jobs.stats(window=_seconds(window))}

    def limits(self) -> JsonObject:
        """List limits: allowed, used, how many jobs wait for each, and whether the numbers were changed."""
        return {"limits": self._target.jobs.limits()}

    def schedules(self) -> JsonObject:
        """List schedules: when they run, whether they are paused, late or broken."""
        return {"schedules": [self._scrubbed(one) for one in self._target.jobs.schedules(unwritten=True)]}

    def workers(self) -> JsonObject:
        """List workers: whether each is alive, which queues and tasks it serves, how many jobs it runs."""
        return {"workers": workers_as_json(self._target)}

    def search_docs(self, query: str) -> JsonObject:
        """Search Rowcall's documentation, and return the sections that fit best."""
        return {"sections": search_docs(query)}

    def _scrubbed(self, value: Any) -> Any:
        return scrubbed(self._target.queue.declared.failures, value)


def _seconds(window: str) -> float:
    seconds = seconds_from_text(window)
    if seconds is None:
        raise InvalidOption("window", f"must be a duration such as 90s, 5m, 1h or 2d, got {window!r}")
    return seconds
