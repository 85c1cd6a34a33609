"""The options of a worker: checked once, all problems reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Literal, TypedDict, get_args

import msgspec

from rowcall.domain.checks import queue_problem
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.job import EVERY_QUEUE
from rowcall.observe.metrics_server import DEFAULT_HOST
from rowcall.worker.pace import (
    DEFAULT_CONCURRENCY,
    DEFAULT_GRACE_SECONDS,
    DEFAULT_LEASE_SECONDS,
    MOST_CONCURRENCY,
    MOST_PORT,
    SHORTEST_LEASE_SECONDS,
)

LogJobs = Literal["auto", "all", "failures"]
"""Which attempts the log has a line for. `auto`: each, unless very many end per second; the ones that fail always."""

Queues = Mapping[str, int | None] | Iterable[str] | str | None


class WorkerOptions(TypedDict, total=False):
    """What `jobs.worker(...)` and `jobs.work(...)` take."""

    concurrency: int
    queues: Queues
    grace: float | timedelta
    lease: float | timedelta
    metrics_port: int | None
    metrics_host: str
    log_jobs: LogJobs


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    concurrency: int = DEFAULT_CONCURRENCY
    queues: dict[str, int | None] | None = None
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    metrics_port: int | None = None
    metrics_host: str = DEFAULT_HOST
    log_jobs: LogJobs = "auto"

    @property
    def queues_text(self) -> str:
        """The queues as they are shown: `mail=10,default`, or `*` for all."""
        if self.queues is None:
            return "*"
        return ",".join(name if limit is None else f"{name}={limit}" for name, limit in self.queues.items())

    @property
    def served(self) -> str | None:
        """The names of the queues as JSON, or None for all."""
        return None if self.queues is None else msgspec.json.encode(list(self.queues)).decode()


def settings(
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    queues: Queues = None,
    grace: float | timedelta = DEFAULT_GRACE_SECONDS,
    lease: float | timedelta = DEFAULT_LEASE_SECONDS,
    metrics_port: int | None = None,
    metrics_host: str = DEFAULT_HOST,
    log_jobs: LogJobs = "auto",
) -> Settings:
    problems = []
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= MOST_CONCURRENCY:
        problems.append(
            InvalidOption("concurrency", f"must be a whole number from 1 to {MOST_CONCURRENCY}, got {concurrency!r}")
        )
    parsed: dict[str, int | None] | None = None
    try:
        parsed = _queues(queues)
    except InvalidOption as error:
        problems.append(error)
    grace_seconds = _seconds("grace", grace, problems)
    lease_seconds = _seconds("lease", lease, problems, SHORTEST_LEASE_SECONDS)
    if metrics_port is not None and not _is_port(metrics_port):
        problems.append(InvalidOption("metrics_port", f"must be a port from 1 to {MOST_PORT}, got {metrics_port!r}"))
    if not isinstance(metrics_host, str) or not metrics_host:
        problems.append(InvalidOption("metrics_host", f"must be a name or an address, got {metrics_host!r}"))
    if log_jobs not in get_args(LogJobs):
        problems.append(InvalidOption("log_jobs", f'must be "auto", "all" or "failures", got {log_jobs!r}'))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidOption("worker", "; ".join(str(problem) for problem in problems))
    return Settings(
        concurrency=concurrency,
        queues=parsed,
        grace_seconds=grace_seconds,
        lease_seconds=lease_seconds,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        log_jobs=log_jobs,
    )


def _is_port(port: object) -> bool:
    return isinstance(port, int) and not isinstance(port, bool) and 1 <= port <= MOST_PORT


def _seconds(option: str, value: float | timedelta, problems: list[InvalidOption], shortest: float = 0) -> float:
    try:
        return seconds_of(option, value, shortest)
    except InvalidOption as error:
        problems.append(error)
        return 1.0


def _queues(queues: Queues) -> dict[str, int | None] | None:
    """
    >>> _queues("mail=10,default")
    {'mail': 10, 'default': None}
    """
    if queues is None:
        return None
    if isinstance(queues, str):
        queues = dict(_named_limit(part) for part in queues.split(","))
    elif not isinstance(queues, Mapping):
        queues = dict.fromkeys(queues)
    for name, limit in queues.items():
        if name == "":
            raise InvalidOption("queues", "a name in the list is empty; leave queues out to serve all")
        if problem := queue_problem(name):
            advice = "; leave queues out to serve all" if name == EVERY_QUEUE else ""
            raise InvalidOption("queues", f"{problem}{advice}")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InvalidOption("queues", f"the limit of {name!r} must be a whole number above 0, got {limit!r}")
    if not queues:
        raise InvalidOption("queues", "must name a queue; leave queues out to serve all")
    return dict(queues)


def _named_limit(part: str) -> tuple[str, int | None]:
    name, mark, limit = part.strip().partition("=")
    if not mark:
        return name, None
    if not limit.strip().isdecimal():
        raise InvalidOption("queues", f"{part.strip()!r} must be name or name=number")
    return name, int(limit)
