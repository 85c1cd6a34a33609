"""`rowcall show`: one job, its attempts, its timeline, and the traceback of its last failure."""

from __future__ import annotations

import click
import msgspec

from rowcall.cli.present.output import console, job_as_json, moment, print_json, span, status_text, table, text
from rowcall.cli.target import existing, json_option, queue_of, split_app, url_option
from rowcall.domain.job import Attempt, BlockedBy, Event, Job
from rowcall.overview.scrub import scrubbed_attempt, scrubbed_event, scrubbed_job
from rowcall.queue.looking import stored_job

_TIMES = ("run_at", "created_at", "claimed_at", "started_at", "finished_at", "heartbeat_at", "expires_at")
MOST_BLOCKERS = 20
_JSON_FIELDS = ("payload", "result", "tags")


@click.command("show")
@click.argument("words", nargs=-1, metavar="[APP] ID")
@url_option
@json_option
def show_command(words: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Show all there is to know about one job. Times are UTC.

    With --json: {"job": {…}, "attempts": [{…}, …], "blockers": [{"id", "is_chain", "status", "open"}, …],
    "timeline": [{"at", "event", "actor", "detail"}, …]}.
    """
    app, ids = split_app(words)
    if len(ids) > 1:
        raise click.UsageError("name one job")
    with existing(app, url) as jobs:
        failures = queue_of(jobs).failures
        job = scrubbed_job(failures, stored_job(queue_of(jobs), ids[0]))
        attempts = [scrubbed_attempt(failures, attempt) for attempt in jobs.attempts(ids[0])]
        blockers = jobs.blockers(ids[0])
        timeline = [scrubbed_event(failures, event) for event in jobs.timeline(ids[0])]
    if as_json:
        print_json({"job": job_as_json(job), "attempts": attempts, "blockers": blockers, "timeline": timeline})
        return
    _print(job, attempts, blockers, timeline)


def _print(job: Job, attempts: list[Attempt], blockers: list[BlockedBy], timeline: list[Event]) -> None:
    out = console()
    out.print(text(f"job {job.id}  {job.type}  ", "bold"), status_text(job.status))
    out.print(_fields(job))
    if attempts:
        out.print("\nattempts", style="bold")
        out.print(_attempts(attempts))
    if any(attempt.error_code for attempt in attempts):
        out.print("\nerrors of attempts", style="bold")
        out.print(_errors(attempts))
    if blockers:
        out.print("\nblockers", style="bold")
        out.print(_blockers(blockers))
    out.print("\ntimeline", style="bold")
    out.print(_timeline(timeline))
    failures = [attempt for attempt in attempts if attempt.traceback]
    if failures:
        out.print(f"\ntraceback of attempt {failures[-1].attempt}", style="bold")
        out.print(text(str(failures[-1].traceback).rstrip()))


def _fields(job: Job) -> object:
    shown = table("field", "value", whole=("field",))
    shown.show_header = False
    for name, value in msgspec.structs.asdict(job).items():
        if name in ("id", "type", "status", "lease", "duplicate") or value is None or value == ():
            continue
        if name in _TIMES:
            value = f"{moment(value)} UTC"
        elif name in _JSON_FIELDS:
            value = msgspec.json.encode(value).decode()
        elif name == "progress":
            value = f"{100 * value:.0f} %"
        shown.add_row(text(name, "dim"), text(value))
    return shown


def _attempts(attempts: list[Attempt]) -> object:
    shown = table(
        *("no.", "status", "claimed (UTC)", "took", "worker"), right=("no.", "took"), whole=("status", "claimed (UTC)")
    )
    for attempt in attempts:
        took = ""
        if attempt.started_at is not None and attempt.finished_at is not None:
            took = span((attempt.finished_at - attempt.started_at).total_seconds())
        shown.add_row(
            str(attempt.attempt),
            status_text(attempt.status),
            moment(attempt.claimed_at),
            took,
            text(attempt.worker or ""),
        )
    return shown


def _errors(attempts: list[Attempt]) -> object:
    """Apart from the other columns, which a long error would push away."""
    shown = table("no.", "error", right=("no.",), line=False)
    for attempt in attempts:
        error = ": ".join(part for part in (attempt.error_code, attempt.error_detail) if part)
        if error:
            shown.add_row(str(attempt.attempt), text(error))
    return shown


def _blockers(blockers: list[BlockedBy]) -> object:
    """Those that keep the job waiting first, and of many only some."""
    shown = table("", "blocker", "status", right=("blocker",), line=False)
    for one in sorted(blockers, key=lambda one: not one.open)[:MOST_BLOCKERS]:
        what = f"{'chain' if one.is_chain else 'job'} {one.id}"
        shown.add_row("waits for" if one.open else "had", what, status_text(one.status or "deleted"))
    if len(blockers) > MOST_BLOCKERS:
        shown.add_row("", f"and {len(blockers) - MOST_BLOCKERS} more", "")
    return shown


def _timeline(timeline: list[Event]) -> object:
    shown = table("at (UTC)", "event", "by", "detail", whole=("at (UTC)", "event"), line=False)
    for event in timeline:
        shown.add_row(moment(event.at), text(event.event), text(event.actor or ""), text(event.detail or ""))
    return shown
