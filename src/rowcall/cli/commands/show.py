"""`rowcall show`: one job, its attempts, its timeline, and the traceback of its last failure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

import msgspec

from rowcall.base.text import duration
from rowcall.cli.command import Answer, local_option, one_job_id, queue_command
from rowcall.cli.commands.jobs import job_as_json
from rowcall.cli.present.console import is_narrow, show, show_section
from rowcall.cli.present.text_tables import Table, block, has_unicode, status_text, table_of, text
from rowcall.cli.target import Target
from rowcall.domain.job import Attempt, BlockedBy, Dependent, Event, Job, Why
from rowcall.domain.job_log import LogLine
from rowcall.domain.question import choices_of, prompt_of
from rowcall.domain.step import RecordedStep, StepKind, StepStatus
from rowcall.operations.inspect import get_row
from rowcall.operations.signals import step_rows
from rowcall.overview.family import Relative, family
from rowcall.overview.formats import exact, moment, zone_name
from rowcall.overview.liveness import database_time
from rowcall.overview.reasons import why_in
from rowcall.overview.scrub import scrubbed
from rowcall.overview.waterfall import label_of, text_bar, waterfall

_TIMES = (
    "run_at",
    "created_at",
    "claimed_at",
    "started_at",
    "finished_at",
    "heartbeat_at",
    "expires_at",
    "deadline_at",
)
_HIDDEN = ("id", "type", "status", "lease", "holder", "duplicate")
_JSON_FIELDS = ("payload", "result", "tags")
MOST_RELATED = 20
LONGEST_RESULT = 200
BAR_COLUMNS = 24
MOST_LINES = 100


@queue_command("show", words="ID", parse=one_job_id)
@local_option
def show_command(target: Target, words: int, zone: tzinfo | None) -> Answer:
    """Show everything about one job.

    With --json: {"job": {…}, "why": {"reason", "sentence", …}, "attempts": [{…}, …],
    "blockers": [{"id", "is_chain", "status", "open"}, …],
    "dependents": [{"id", "type", "queue", "status", "of_chain", "open"}, …], of which the first 100 are listed,
    "steps": [{"position", "kind", "name", "status", "result", …}, …],
    "timeline": [{"at", "event", "actor", "detail"}, …],
    "log": [{"at", "level", "message", "attempt"}, …]}.
    """
    found = everything_about(target, words, zone)
    return Answer({**found._asdict(), "job": job_as_json(found.job)}, lambda: _show(found, target, zone))


class AllOfJob(NamedTuple):
    """A job and all that is known of it, as it may be shown."""

    job: Job
    why: Why
    attempts: list[Attempt]
    blockers: list[BlockedBy]
    dependents: list[Dependent]
    steps: list[RecordedStep]
    timeline: list[Event]
    log: list[LogLine]


def everything_about(target: Target, job_id: int, zone: tzinfo | None = UTC) -> AllOfJob:
    failures = target.queue.declared.failures
    return AllOfJob(
        job=scrubbed(failures, target.queue.run(get_row(target.queue, job_id))),
        why=scrubbed(failures, target.queue.run(why_in(target.queue, job_id, zone))),
        attempts=[scrubbed(failures, attempt) for attempt in target.jobs.attempts(job_id)],
        blockers=target.jobs.blockers(job_id),
        dependents=target.jobs.dependents(job_id),
        steps=[scrubbed(failures, step) for step in target.queue.run(step_rows(target.queue, job_id))],
        timeline=[scrubbed(failures, event) for event in target.jobs.timeline(job_id)],
        log=[scrubbed(failures, line) for line in target.jobs.log(job_id)],
    )


def _show(found: AllOfJob, target: Target, zone: tzinfo | None) -> None:
    job, why, attempts, blockers, dependents, steps, timeline, log = found
    now, relatives = database_time(target.queue), target.queue.run(family(target.queue, job.id))
    show(text(f"job {job.id}  {job.type}  ", "bold"), status_text(job.status))
    show(text(why.sentence))
    show(_fields(job, {attempt.error_detail for attempt in attempts}, zone))
    if attempts:
        show_section("attempts", _attempts(attempts, zone))
    failed = [attempt for attempt in attempts if attempt.error_code]
    if failed:
        show_section("errors", _errors(failed))
    if blockers:
        show_section("blockers", _blockers(blockers))
    if dependents:
        show_section("dependents", _dependents(dependents))
    if steps:
        show_section("steps", _steps(job, attempts, steps, now, zone))
    if relatives:
        show_section("parents and children", _relatives(relatives))
    show_section("timeline", _timeline(timeline, {_error(attempt): attempt.error_code for attempt in failed}, zone))
    if log:
        left = len(log) - MOST_LINES
        show_section(f"log, without the first {left} lines" if left > 0 else "log", _log(log[-MOST_LINES:], zone))
    raised = [attempt for attempt in attempts if attempt.traceback]
    if raised:
        show_section(
            f"traceback of attempt {raised[-1].attempt}", block(str(raised[-1].traceback).rstrip()), wrap=False
        )


def _fields(job: Job, details: Collection[str | None], zone: tzinfo | None) -> Table:
    """Return the fields, without the error detail if it is among the `details` of the attempts."""
    shown = Table("field", "value", whole=("field",), headings=False)
    for name, value in msgspec.structs.asdict(job).items():
        if name in _HIDDEN or value is None or value == () or (name == "error_detail" and value in details):
            continue
        if name in _TIMES:
            value = exact(value, zone)
        elif name in _JSON_FIELDS:
            value = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
        elif name == "progress":
            value = f"{100 * value:.0f} %"
        shown.add_row(text(name, "dim"), block(value))
    return shown


def _attempts(attempts: list[Attempt], zone: tzinfo | None) -> Table:
    claimed = f"claimed ({zone_name(zone)})"
    return table_of(
        attempts,
        {
            "no.": lambda attempt: attempt.attempt,
            "status": lambda attempt: status_text(attempt.status),
            claimed: lambda attempt: moment(attempt.claimed_at, zone),
            "took": _took,
            "worker": lambda attempt: attempt.worker,
        },
        right=("no.", "took"),
        whole=("status", claimed),
    )


def _took(attempt: Attempt) -> str:
    if attempt.started_at is None or attempt.finished_at is None:
        return ""
    return duration((attempt.finished_at - attempt.started_at).total_seconds())


def _errors(attempts: list[Attempt]) -> Table:
    """Return a table apart from the attempts: a long error would push their columns away. Each error comes once."""
    numbers: dict[str, list[str]] = {}
    for attempt in attempts:
        numbers.setdefault(_error(attempt), []).append(str(attempt.attempt))
    columns: dict[str, Callable[[str], object]] = {"no.": lambda error: ", ".join(numbers[error]), "error": block}
    return table_of(numbers, columns, line=False)


def _error(attempt: Attempt) -> str:
    return ": ".join(filter(None, (attempt.error_code, attempt.error_detail)))


def _blockers(blockers: list[BlockedBy]) -> Table:
    """Return the blockers; the open ones come first."""
    shown = Table("", "blocker", "status", right=("blocker",), line=False)
    for one in sorted(blockers, key=lambda one: not one.open)[:MOST_RELATED]:
        what = f"{'chain' if one.is_chain else 'job'} {one.id}"
        shown.add_row("waits for" if one.open else "waited for", what, status_text(one.status or "deleted"))
    if len(blockers) > MOST_RELATED:
        shown.add_row("", f"and {len(blockers) - MOST_RELATED} more", "")
    return shown


def _dependents(dependents: list[Dependent]) -> Table:
    """Return the jobs that wait for this one; the open ones come first."""
    shown = Table("job", "type", "status", "", right=("job",), line=False)
    for one in sorted(dependents, key=lambda one: not one.open)[:MOST_RELATED]:
        waits = f"{'waits' if one.open else 'waited'} for {'the chain' if one.of_chain else 'this job'}"
        shown.add_row(str(one.id), one.type, status_text(one.status), waits)
    if len(dependents) > MOST_RELATED:
        shown.add_row("", "and more", "", "")
    return shown


def _steps(job: Job, attempts: list[Attempt], steps: list[RecordedStep], now: datetime, zone: tzinfo | None) -> Table:
    """Return the steps, and of the last ones when they ran (full) and waited (dotted)."""
    marks = "█░" if has_unicode() else "#."
    bars = {bar.step.position: bar for bar in waterfall(job, attempts, steps, now) if bar.step is not None}

    def drawn(step: RecordedStep) -> object:
        bar = bars.get(step.position)
        return None if bar is None else block(text_bar(bar, BAR_COLUMNS, marks))

    columns: dict[str, Callable[[RecordedStep], object]] = {
        "no.": lambda step: step.position,
        "step": label_of,
        "status": lambda step: step.status.replace("_", " "),
        **({} if is_narrow() else {"when": drawn}),
        f"ended ({zone_name(zone)})": lambda step: "" if step.finished_at is None else moment(step.finished_at, zone),
        "result": lambda step: block(_step_result(step, zone)),
    }
    return table_of(steps, columns, right=("no.",), whole=("status",), line=False)


def _relatives(relatives: list[Relative]) -> Table:
    shown = Table("job", "type", "status", right=("job",), line=False)
    for one in relatives:
        shown.add_row(str(one.job_id), block(f"{'  ' * one.depth}{one.type}"), status_text(one.status))
    return shown


def _log(lines: list[LogLine], zone: tzinfo | None) -> Table:
    columns: dict[str, Callable[[LogLine], object]] = {
        "no.": lambda line: line.attempt,
        f"at ({zone_name(zone)})": lambda line: moment(line.at, zone),
        "level": lambda line: line.level.lower(),
        "message": lambda line: block(line.message),
    }
    return table_of(lines, columns, right=("no.",), whole=("level",), line=False)


def _step_result(step: RecordedStep, zone: tzinfo | None) -> str:
    if step.status is StepStatus.WAITING:
        asked = prompt_of(step.question) or "", ", ".join(choices_of(step.question, step.expects))
        until = "" if step.due_at is None else f"until {moment(step.due_at, zone)}"
        return ": ".join(filter(None, (*asked, until, step.error_code, step.error_detail)))
    if step.kind is StepKind.SLEEP:
        return ""
    if step.error_code is not None:
        return ": ".join(filter(None, (step.error_code, step.error_detail)))
    encoded = msgspec.json.format(msgspec.json.encode(step.result), indent=0).decode()
    return encoded if len(encoded) <= LONGEST_RESULT else f"{encoded[:LONGEST_RESULT]}…"


def _timeline(timeline: list[Event], errors: Mapping[str, str | None], zone: tzinfo | None) -> Table:
    """Return the events. `errors` are the codes of errors that are shown elsewhere: here, the code is enough."""

    def detail(event: Event) -> str:
        return errors.get(event.detail or "") or event.detail or ""

    at = f"at ({zone_name(zone)})"
    columns: dict[str, Callable[[Event], object]] = {
        at: lambda event: moment(event.at, zone),
        "event": lambda event: event.event,
        "by": lambda event: event.actor,
        "detail": lambda event: block(detail(event)),
    }
    if is_narrow():
        del columns["by"]
        columns["detail"] = lambda event: block(
            " ".join(filter(None, (detail(event), f"by {event.actor}" if event.actor is not None else "")))
        )
    return table_of(timeline, columns, whole=(at, "event"), line=False)
