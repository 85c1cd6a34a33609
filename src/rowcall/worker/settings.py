"""The options of a worker: checked once, all problems reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Literal, TypedDict, Unpack

import msgspec

from rowcall.domain import checks
from rowcall.domain.checks import queue_problem
from rowcall.domain.errors import InvalidOption, refuse_unknown, seconds_of
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

    concurrency: Annotated[int, checks.whole(1, MOST_CONCURRENCY)]
    queues: Annotated[Queues, _queues]
    grace: Annotated[float | timedelta, seconds_of, "grace_seconds"]
    lease: Annotated[float | timedelta, _lease, "lease_seconds"]
    metrics_port: Annotated[int | None, _port]
    metrics_host: Annotated[str, _host]
    log_jobs: Annotated[LogJobs, checks.one_of("auto", "all", "failures")]


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


def settings(**options: Unpack[WorkerOptions]) -> Settings:
    refuse_unknown(options, _OPTIONS)
    fields, problems = checks.all_checked(_OPTIONS, options)
    checks.refuse_all("worker", problems)
    return Settings(**fields)  # type: ignore[arg-type]


def _lease(option: str, value: float | timedelta) -> float:
    return seconds_of(option, value, SHORTEST_LEASE_SECONDS)


def _port(option: str, value: object) -> object:
    return value if value is None else checks.whole(1, MOST_PORT, "a port")(option, value)


def _host(option: str, value: object) -> object:
    if not isinstance(value, str) or not value:
        raise InvalidOption(option, f"must be a name or an address, got {value!r}")
    return value


def _queues(option: str, queues: Queues) -> dict[str, int | None] | None:
    """
    >>> _queues("queues", "mail=10,default")
    {'mail': 10, 'default': None}
    """
    if queues is None:
        return None
    if isinstance(queues, str):
        queues = dict(_named_limit(option, part) for part in queues.split(","))
    elif not isinstance(queues, Mapping):
        queues = dict.fromkeys(queues)
    for name, limit in queues.items():
        if name == "":
            raise InvalidOption(option, "a name in the list is empty; leave queues out to serve all")
        if problem := queue_problem(name):
            advice = "; leave queues out to serve all" if name == EVERY_QUEUE else ""
            raise InvalidOption(option, f"{problem}{advice}")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InvalidOption(option, f"the limit of {name!r} must be a whole number above 0, got {limit!r}")
    if not queues:
        raise InvalidOption(option, "must name a queue; leave queues out to serve all")
    return dict(queues)


def _named_limit(option: str, part: str) -> tuple[str, int | None]:
    name, mark, limit = part.strip().partition("=")
    if not mark:
        return name, None
    if not limit.strip().isdecimal():
        raise InvalidOption(option, f"{part.strip()!r} must be name or name=number")
    return name, int(limit)


_OPTIONS = checks.options_of(WorkerOptions)
