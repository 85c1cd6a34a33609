"""`rowcall watch`: a process that is not a worker, notices what needs attention, and reports it."""

from __future__ import annotations

import threading
from datetime import tzinfo

import click
import msgspec

from rowcall.base.times import milliseconds_of
from rowcall.cli.command import local_option, typed_seconds
from rowcall.cli.present import log
from rowcall.cli.present.console import print_json, show
from rowcall.cli.present.findings import STYLES, advice_lines, findings
from rowcall.cli.present.text_tables import text
from rowcall.cli.processes import interruptible
from rowcall.cli.target import Target, existing
from rowcall.domain.alerts import AlertEvent, Alerts, Followed, decide_alerts, named
from rowcall.domain.attention import Finding
from rowcall.domain.config import URL_FORMS
from rowcall.domain.errors import InvalidOption, RowcallError
from rowcall.overview.alerting import LOOK_SECONDS, Watcher, alerts_of
from rowcall.overview.formats import moment
from rowcall.overview.liveness import database_time

_GONE_STYLE = "green"


@click.command("watch", short_help="Watch what needs attention, and send alerts.")
@click.argument("app", metavar="[APP]", required=False)
@click.option("--url", metavar="URL", help=f"Database: {URL_FORMS}.")
@click.option(
    "--webhook",
    metavar="URL",
    envvar="ROWCALL_ALERT_URL",
    show_envvar=True,
    help="Send alerts there, if the app has no Alerts.",
)
@click.option("--task", metavar="NAME", help="Enqueue a job of this task for each alert, if the app has no Alerts.")
@click.option(
    "--after", type=typed_seconds, metavar="DURATION", help="Report what has lasted for this time; default 60s."
)
@click.option("--period", type=typed_seconds, metavar="DURATION", help="Report the same again later; default 1h.")
@click.option("--once", is_flag=True, help="Look once, and exit: for cron.")
@local_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def watch_command(
    app: str | None,
    url: str | None,
    webhook: str | None,
    task: str | None,
    once: bool,
    as_json: bool,
    zone: tzinfo | None,
    **times: float | None,
) -> None:
    """Print what needs attention when it appears and when it is gone, until SIGINT or SIGTERM.

    APP is app:jobs, or the URL of a database. If the app has Alerts, or with --webhook or --task, alerts are
    sent. Any number of processes may watch: one of them sends.

    \b
        rowcall watch app:jobs
        rowcall watch postgresql://ann@db-1/shop --webhook https://hooks.example/T0/B1

    With --json: {"event": "appeared" | "changed" | "gone", "at", "finding": {…}} on each line.
    """
    if app is not None and "://" in app and url is None:
        app, url = None, app
    target = existing(app, url)
    with target.jobs, interruptible():
        log.set_up("warning")
        alerts = _alerts(target, webhook, task, times)
        watch = _Watch(target, alerts, as_json, zone)
        try:
            watch.look()
            while not once and not target.queue.clock.wait(threading.Event(), LOOK_SECONDS):
                watch.look()
        except KeyboardInterrupt:
            pass
        finally:
            watch.leave()


def _alerts(target: Target, url: str | None, task: str | None, times: dict[str, float | None]) -> Alerts | None:
    declared = alerts_of(target.queue)
    if declared is None and url is None and task is None:
        click.echo("no alerts are sent: give --webhook URL, or alerts=Alerts(url=…) in the app", err=True)
        return None
    given = {name: seconds for name, seconds in times.items() if seconds is not None}
    try:
        return msgspec.structs.replace(Alerts(url=url, task=task) if declared is None else declared, **given)
    except InvalidOption as error:  # --url is the database
        raise InvalidOption("webhook" if error.option == "url" else error.option, error.problem) from error


class _Watch:
    """Prints what is new, and sends alerts."""

    def __init__(self, target: Target, alerts: Alerts | None, as_json: bool, zone: tzinfo | None) -> None:
        self._target = target
        self._zone = zone
        self._watcher = None if alerts is None else Watcher(target.queue, alerts)
        self._as_json = as_json
        self._followed: list[Followed] = []

    def look(self) -> None:
        """Look once. If the database does not answer, say so: it may answer the next time."""
        target = self._target
        try:
            at = database_time(target.queue)
            decision = decide_alerts(self._followed, named(findings(target)), milliseconds_of(at), 0, 0)
            self._followed = decision.kept
            for event, followed in decision.reported:
                if self._as_json:
                    print_json({"event": event, "at": at, "finding": followed.finding})
                else:
                    _show(moment(at, self._zone), event, followed.finding)
            if self._watcher is not None:
                target.queue.run(self._watcher.look())
        except RowcallError as error:
            click.echo(f"error: {error}", err=True)

    def leave(self) -> None:
        if self._watcher is not None:
            self._target.queue.run(self._watcher.leave())


def _show(at: str, event: AlertEvent, finding: Finding) -> None:
    is_gone = event is AlertEvent.GONE
    line = text(f"{at}  ", "dim")
    line.append_text(
        text("gone" if is_gone else finding.severity, _GONE_STYLE if is_gone else STYLES[finding.severity])
    )
    line.append_text(text(f"  {finding.message}"))
    show(line)
    if event is AlertEvent.APPEARED:
        for step in advice_lines(finding.advice):
            show(text(f"  {step}", "dim"))
