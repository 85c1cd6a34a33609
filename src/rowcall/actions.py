"""The table of what people do to jobs. Plans, operations, commands, the HTTP API and its pages look actions up here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypedDict

from rowcall.domain.batches import BatchInfo, BatchKey
from rowcall.domain.errors import WrongState
from rowcall.domain.job import WAITING, Chain, Job, Status
from rowcall.domain.lifecycle import Move, sources


class JobFilter(TypedDict, total=False):
    """Which jobs are meant; None and what is left out mean all.

    `status` is one state or several. `key` needs `type`. An `error_code` that ends with `*` matches all codes that
    begin so. A time `…_after` is included, `…_before` is not. `payload` are values of arguments: `{"customer": 7}`.
    """

    status: str | Collection[str] | None
    queue: str | None
    type: str | None
    tag: str | None
    key: str | None
    chain: Chain | Job | int | None
    batch: BatchKey | BatchInfo | int | None
    parent: Job | int | None
    worker: str | None
    error_code: str | None
    created_after: datetime | None
    created_before: datetime | None
    finished_after: datetime | None
    finished_before: datetime | None
    payload: Mapping[str, object] | None


class BulkFilter(JobFilter, total=False):
    """The jobs to change: at most `limit` of them; `all=True` if every job may match."""

    limit: int | None
    all: bool | None


class ActionOptions(TypedDict, total=False):
    """Who acts, and in whose transaction."""

    actor: str | None
    connection: object


class RetryOptions(ActionOptions, total=False):
    """`from_step` is the first recorded step that runs again."""

    from_step: str | None


class RescheduleOptions(ActionOptions, total=False):
    run_at: datetime | None
    delay: float | timedelta | None


class BulkOptions(BulkFilter, ActionOptions, total=False): ...


class BulkRetryOptions(BulkOptions, total=False):
    """`rate` is how many jobs become due per second."""

    rate: float | None


class BulkRescheduleOptions(BulkFilter, RescheduleOptions, total=False): ...


class Action(NamedTuple):
    """Something that people do to a job, or to all jobs that fit a filter."""

    name: str
    """The method of `Rowcall`, and the operation."""
    statuses: Sequence[Status]
    """The states of the jobs that it can change."""
    done: str
    """What is said of the jobs afterwards: `3 jobs will run again`."""
    parameters: Collection[str] = ("actor", "connection")
    """What can be given together with a job; all else is a filter."""
    meant: Sequence[Status] | None = None
    """The states of the jobs that a filter without states means, if it does not mean all that can be changed."""

    @property
    def path(self) -> str:
        """Return its name in the HTTP API and on the pages."""
        return self.name.removeprefix("set_")

    @property
    def verb(self) -> str:
        return "set the priority of" if self is SET_PRIORITY else self.name

    def check(self, job: Job) -> None:
        """Raise `WrongState` if the job is in another state."""
        if job.status not in self.statuses:
            raise WrongState(job.id, job.status, self.verb, [str(status) for status in self.statuses])


def _from(move: Move) -> Sequence[Status]:
    return [status for status in Status if status in sources(move)]


_OF_RETRY = ("actor", "connection", "from_step")
RETRY = Action("retry", _from(Move.RERUN), "will run again", _OF_RETRY, meant=(Status.FAILED,))
FROM_STEP = Action("retry", [*WAITING, *RETRY.statuses], "will run again", _OF_RETRY)
"""A retry that keeps the steps before one: also of a job that waits, perhaps for code that fits its steps."""
CANCEL = Action("cancel", _from(Move.CANCEL), "cancelled, or asked to stop", ("actor", "connection", "reason"))
DELETE = Action("delete", _from(Move.DELETE), "deleted", ("connection",))
RESCHEDULE = Action("reschedule", WAITING, "rescheduled", ("actor", "connection", "run_at", "delay"))
SET_PRIORITY = Action("set_priority", CANCEL.statuses, "with a new priority", ("actor", "connection", "priority"))
EDIT = Action("edit", WAITING, "changed")
COMPLETE = Action("complete", WAITING, "completed")

ON_ALL = {action.path: action for action in (RETRY, CANCEL, DELETE, RESCHEDULE, SET_PRIORITY)}
"""The actions that take a filter."""
ON_ONE = ON_ALL | {action.path: action for action in (EDIT, COMPLETE)}
