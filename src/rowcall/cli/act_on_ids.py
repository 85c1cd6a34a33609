"""Commands that act on jobs given by id, and what they print about each."""

from __future__ import annotations

from collections.abc import Callable

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.base.text import one_line, printable
from rowcall.cli.command import Answer
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.domain.errors import InvalidOption, JobNotFound, RowcallError, StoreUnavailable, WrongState
from rowcall.domain.job import FINISHED, Job, Status


class Outcome(msgspec.Struct, kw_only=True, frozen=True):
    """`status` is the job's state now, or null if there is no such job."""

    id: int
    ok: bool
    status: str | None = None
    error: str | None = None


Act = Callable[[Rowcall, int], tuple[Job | None, str]]
"""Acts on one job; returns its new state, and what to print after its id."""


def act_on(target: Target, ids: list[int], act: Act) -> Answer:
    """Act on each job; one that cannot be done does not stop the others."""
    outcomes, said = [], {}
    for job_id in ids:
        outcome, said[job_id] = _outcome(target.jobs, job_id, act)
        outcomes.append(outcome)
    return Answer({"jobs": outcomes}, lambda: _show(outcomes, said), all(outcome.ok for outcome in outcomes))


def _outcome(jobs: Rowcall, job_id: int, act: Act) -> tuple[Outcome, str]:
    try:
        job, said = act(jobs, job_id)
        return Outcome(id=job_id, ok=True, status=None if job is None else job.status), said
    except (StoreUnavailable, InvalidOption):
        raise  # the other jobs would fail alike
    except JobNotFound as error:
        return Outcome(id=job_id, ok=False, error=str(error)), ""
    except WrongState as error:
        return Outcome(id=job_id, ok=False, status=error.status, error=_explained(error)), ""
    except RowcallError as error:
        return Outcome(id=job_id, ok=False, error=str(error)), ""


def _explained(error: WrongState) -> str:
    """Return what the job's state means for this command, and what to do."""
    if error.problem:
        return str(error)
    said = f"job {error.job_id} is {error.status}"
    if error.status == Status.RUNNING:
        return f"{said}: wait for it to end, or cancel it first"
    if error.status in FINISHED:
        return f"job {error.job_id} has already {'been ' if error.status == Status.CANCELLED else ''}{error.status}"
    return f"{said}: it will run without a retry" if error.move == "retry" else f"{said}: cannot {error.move} it"


def _show(outcomes: list[Outcome], said: dict[int, str]) -> None:
    for outcome in outcomes:
        if outcome.ok:
            show(one_line(f"job {outcome.id} {said[outcome.id]}"))
        else:
            click.echo(f"error: {printable(str(outcome.error))}", err=True)
