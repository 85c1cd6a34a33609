"""Alerts: watches what needs attention, and reports it.

Any number of processes watch; one of them leads. It writes what it reports together with what is to be sent, and sends
it. What was not confirmed is sent again, with the same id, by the process that leads then.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime

import msgspec

from rowcall.base.clock import jittered
from rowcall.base.effects import Effect
from rowcall.base.text import duration, one_line
from rowcall.base.times import time_of
from rowcall.context import logger
from rowcall.declare.option_table import Options
from rowcall.domain.alerts import Alert, AlertEvent, Alerts, Followed, decide_alerts, named
from rowcall.domain.attention import Finding
from rowcall.domain.errors import InvalidOption, PushFailed, RowcallError
from rowcall.operations.effects import Read, Write
from rowcall.operations.enqueue import bind_by_name, stored_rows, with_key
from rowcall.overview.attention.attention_list import attention
from rowcall.overview.scrub import scrubbed
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.enqueue.related import write_related
from rowcall.store.new_job import RelatedJob
from rowcall.store.queries import alerts as queries
from rowcall.store.queries.alerts import ClaimedAlert
from rowcall.store.queries.counts import NOW
from rowcall.store.statement import Plan

ARGUMENT = "alert"
LOOK_SECONDS = 10.0
LEAD_MS = 60_000  # longer than a look and a delivery together
SEND_SECONDS = 10.0
MOST_SENT = 100
STOP_SECONDS = 3.0
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 900.0
GIVEN_UP_SECONDS = 24 * 3600.0
URL, TASK = "url", "task"

_decoder = msgspec.json.Decoder(Alert)


def alerts_of(queue: Queue) -> Alerts | None:
    """Return where findings are reported: nowhere, if the queue is that of a test."""
    return None if queue.is_swapped else queue.declared.options.alerts


class Watcher:
    """Looks at what needs attention, and reports it as the app's `Alerts` say."""

    def __init__(self, queue: Queue, alerts: Alerts) -> None:
        self._queue = queue
        self._alerts = alerts
        self._holder = f"{socket.gethostname() or 'localhost'}:{secrets.token_hex(6)}"
        task = None if alerts.task is None else queue.declared.tasks.get(alerts.task)
        if task is not None and task.arguments.names != [ARGUMENT]:
            takes = ", ".join(task.arguments.names) or "none"
            raise InvalidOption("task", f"{alerts.task!r} must take one argument, alert: Alert; it takes {takes}")

    def look(self) -> Operation[list[Alert]]:
        """Look once, send what is due, and return what is reported now. Do nothing if another process leads."""
        queue = self._queue
        leaders = yield from Read(queue.dialect.ask(queries.LEADER_NOW, queries.LEADER, 2 * LEAD_MS))
        if leaders not in ([], [self._holder]):
            return []
        found = yield from attention(queue)
        findings = named(scrubbed(queue.declared.failures, one) for one in found)
        alerts = yield from Write(_report, queue.dialect, self._holder, self._alerts, queue.database.name, findings)
        if alerts is None:
            return []
        for alert in alerts:
            logger.warning("alert: %s", one_line(alert.text))
        for _ in range(MOST_SENT):
            claimed = yield from Write(_claim, queue.dialect, self._holder)
            if claimed is None or not (yield from self._sent(claimed)):
                break
        return alerts

    def leave(self) -> Operation[None]:
        """Let another process lead at once."""
        yield from Write(self._queue.dialect.change, queries.LEAVE_LEAD, queries.LEADER, self._holder)

    def watch(self, pause: Callable[[float], bool]) -> None:
        """Look every few seconds, until `pause` returns false. A look that fails is logged, and does not end it."""
        while True:
            try:
                self._queue.run(self.look())
            except RowcallError as error:
                logger.warning("could not look at what needs attention: %s", error)
            except Exception:
                logger.exception("could not look at what needs attention")
            if not pause(jittered(self._queue.clock, LOOK_SECONDS)):
                break
        try:
            self._queue.run(self.leave())
        except RowcallError as error:  # another one leads after a minute
            logger.debug("could not leave the lead of alerts: %s", error)

    def _sent(self, claimed: ClaimedAlert) -> Operation[bool]:
        """Send an alert, and write down how that went. Return whether to continue with the next one."""
        queue, alert = self._queue, _decoder.decode(claimed.body)
        try:
            if claimed.way == TASK:
                yield from self._enqueue(claimed, alert)
            else:
                yield from Post(self._alerts, alert)
                yield from Write(queue.dialect.change, queries.FINISH_ALERT, claimed.id, claimed.attempts)
        except PushFailed as error:
            yield from self._failed(claimed, error, error.retry_after)
            return error.final  # the receiver is there, and refuses this one
        except InvalidOption as error:
            yield from self._failed(claimed, error, None)
        return True

    def _failed(self, claimed: ClaimedAlert, error: RowcallError, retry_after: float | None) -> Operation[None]:
        dialect = self._queue.dialect
        (at_ms,) = yield from Read(dialect.ask(NOW))
        if (at_ms - claimed.at_ms) / 1000 >= GIVEN_UP_SECONDS:
            logger.error(
                "an alert was not received for %s, and is not sent again: %s", duration(GIVEN_UP_SECONDS), error
            )
            yield from Write(dialect.change, queries.FINISH_ALERT, claimed.id, claimed.attempts)
            return
        pause = SHORTEST_PAUSE_SECONDS * 2 ** min(claimed.attempts, 20)
        seconds = min(max(jittered(self._queue.clock, pause), retry_after or 0.0), LONGEST_PAUSE_SECONDS)
        logger.warning("could not send an alert; trying again in %s: %s", duration(seconds), error)
        yield from Write(dialect.change, queries.DELAY_ALERT, claimed.id, claimed.attempts, round(seconds * 1000))

    def _enqueue(self, claimed: ClaimedAlert, alert: Alert) -> Operation[None]:
        """Enqueue the job, and finish the alert, in one transaction."""
        queue = self._queue
        assert self._alerts.task is not None
        call = bind_by_name(queue, self._alerts.task, {ARGUMENT: alert.to_dict()}, Options())
        related = yield from stored_rows(queue, [with_key(RelatedJob(job=call.job, payload=call.payload))])
        yield from Write(_enqueue_and_finish, queue.dialect, claimed, related)


def watch(queue: Queue) -> Operation[list[Alert]]:
    """Look once at what needs attention, and report it as `Rowcall(alerts=…)` says. Return what is reported now.

    Workers, the dashboard and `rowcall watch` do this every few seconds. Call it where none of them runs, such as from
    cron. If another process does it now, it does nothing.
    """
    alerts = queue.declared.options.alerts
    if alerts is None:
        raise InvalidOption("alerts", "is missing: Rowcall(alerts=Alerts(url=…)) says where to")
    watcher = Watcher(queue, alerts)
    reported = yield from watcher.look()
    yield from watcher.leave()
    return reported


@contextmanager
def watching(queue: Queue) -> Iterator[None]:
    """Watch in a thread during the block, if the app has `Alerts`."""
    alerts = alerts_of(queue)
    if alerts is None:
        yield
        return
    stopped = threading.Event()
    watcher = Watcher(queue, alerts)
    thread = threading.Thread(
        target=watcher.watch,
        args=(lambda seconds: not queue.clock.wait(stopped, seconds),),
        name="rowcall-alerts",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(STOP_SECONDS)  # an alert that is being sent would be sent again


class Post(Effect[Queue, None]):
    """Send an alert to the URL, or raise `PushFailed`."""

    def __init__(self, alerts: Alerts, alert: Alert) -> None:
        self._alerts = alerts
        self._alert = alert

    def run(self, queue: Queue) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self.arun(queue))
        else:  # a call in async code that blocks its event loop
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, self.arun(queue)).result()

    async def arun(self, queue: Queue) -> None:
        post = queue.declared.post_alert
        assert post is not None
        await post(self._alerts, self._alert, SEND_SECONDS)


def _report(
    dialect: Dialect, holder: str, alerts: Alerts, source: str, findings: Mapping[str, Finding]
) -> Plan[list[Alert] | None]:
    """Write what is reported, and what is to be sent. Return None if another process leads."""
    if not (yield from dialect.ask(queries.LEAD, queries.LEADER, LEAD_MS, holder)):
        return None
    (at_ms,) = yield from dialect.ask(NOW)
    followed = yield from dialect.ask(queries.FOLLOWED)
    decision = decide_alerts(followed, findings, at_ms, alerts.after_ms, alerts.period_ms)
    if decision.dropped:
        yield from dialect.ask(queries.DROP_FOLLOWED, decision.dropped)
    if decision.kept:
        yield from dialect.ask(queries.PUT_FOLLOWED, [queries.followed_to_row(one) for one in decision.kept])
    reported = [_alert(event, one, time_of(at_ms), alerts, source) for event, one in decision.reported]
    ways = [way for way, given in ((URL, alerts.url), (TASK, alerts.task)) if given is not None]
    rows = [
        (at_ms, at_ms, way, one.name, alert.to_json())
        for alert, (_, one) in zip(reported, decision.reported, strict=True)
        for way in ways
    ]
    if rows:
        yield from dialect.ask(queries.ADD_ALERTS, rows)
    return reported


def _alert(event: AlertEvent, one: Followed, at: datetime, alerts: Alerts, source: str) -> Alert:
    link = "" if alerts.dashboard is None else f"{alerts.dashboard}{one.finding.link}"
    return Alert(id=f"alert_{secrets.token_hex(12)}", event=event, at=at, source=source, finding=one.finding, link=link)


def _claim(dialect: Dialect, holder: str) -> Plan[ClaimedAlert | None]:
    """Claim the next alert that is due. Return None if there is none, or another process leads."""
    if not (yield from dialect.ask(queries.LEAD, queries.LEADER, LEAD_MS, holder)):
        return None
    for claimed in (yield from dialect.ask(queries.CLAIM_ALERT, LEAD_MS, round(2000 * LONGEST_PAUSE_SECONDS))):
        return claimed
    return None


def _enqueue_and_finish(dialect: Dialect, claimed: ClaimedAlert, related: list[RelatedJob]) -> Plan[None]:
    if (yield from dialect.change(queries.FINISH_ALERT, claimed.id, claimed.attempts)):
        yield from write_related(dialect, related)
