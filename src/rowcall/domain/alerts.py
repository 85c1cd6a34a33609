"""Alerts: the options of `Rowcall(alerts=…)`, and the rules that say which findings are reported, and when."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from rowcall.domain import checks
from rowcall.domain.attention import Finding, Severity
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.push import checked_target
from rowcall.domain.push_signatures import checked_secrets
from rowcall.domain.value import OptionsMeta, Value

DEFAULT_AFTER_SECONDS = 60.0
DEFAULT_PERIOD_SECONDS = 3600.0
LONGEST_SECONDS = 30 * 86_400.0

_SUBJECT = ("queue", "task", "limit", "schedule")
"""What two findings of one code differ in, in their evidence."""
_CAUSE = ("error_code", "problem", "actor")
_SIZE = ("due", "held", "failed", "running", "lost", "jobs_overdue", "more")
_MARKS = {Severity.CRITICAL: "[critical]", Severity.WARNING: "[warning]"}


class Alerts(Value, frozen=True, kw_only=True, metaclass=OptionsMeta):
    """Where findings are reported: `Rowcall(alerts=Alerts(url="https://hooks.example/…", after=60))`.

    Options:
        url: where each alert is sent, as a POST of JSON with a text that Slack shows.
        task: the name of a task; each alert is also a job of it, with the argument `alert: Alert`.
        after: how many seconds a finding must be there, or gone, before it is reported; default 60.
        period: how many seconds later the same finding is reported again at the earliest; default one hour.
        secrets: `whsec_` and 24 to 64 bytes in base64, to sign what is sent. All of them sign.
        dashboard: where the dashboard is, such as `"https://ops.example/jobs"`, for links.
    """

    url: str | None = None
    task: str | None = None
    after: float | timedelta = DEFAULT_AFTER_SECONDS
    period: float | timedelta = DEFAULT_PERIOD_SECONDS
    secrets: Sequence[str] = ()
    dashboard: str | None = None

    _hidden = ("url", "secrets")  # who knows the URL of a chat may write to it

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            msgspec.structs.force_setattr(self, name, value)

        if self.url is None and self.task is None:
            raise InvalidOption("alerts", "must name a url, a task or both, such as Alerts(url='https://…')")
        if self.url is not None:
            checked_target("url", self.url)
        if self.task is not None:
            checks.name("task", self.task)
        for name in ("after", "period"):
            seconds = seconds_of(name, getattr(self, name), 0)
            if seconds > LONGEST_SECONDS:
                raise InvalidOption(name, f"must be at most {LONGEST_SECONDS:.0f} seconds, got {seconds:g}")
            put(name, seconds)
        put("secrets", checked_secrets(self.secrets) if self.secrets != () else ())
        if self.secrets and self.url is None:
            raise InvalidOption("secrets", "must come with url=…, because they sign what is sent there")
        if self.dashboard is not None:
            put("dashboard", checked_target("dashboard", self.dashboard).rstrip("/"))

    @property
    def after_ms(self) -> int:
        return round(self.after * 1000)  # type: ignore[arg-type]

    @property
    def period_ms(self) -> int:
        return round(self.period * 1000)  # type: ignore[arg-type]


class AlertEvent(StrEnum):
    """What has happened to a finding. It is a `str`."""

    APPEARED = "appeared"
    CHANGED = "changed"
    GONE = "gone"


class Alert(Value, frozen=True, kw_only=True):
    """The report that a finding has appeared, has changed or is gone. `source` is the database.

    `id` is the same however often it is sent. `link` leads to the dashboard, if `Alerts` say where that is.
    """

    id: str
    event: AlertEvent
    at: datetime
    source: str
    finding: Finding
    link: str = ""

    @property
    def text(self) -> str:
        """Return the lines that a chat shows."""
        finding = self.finding
        if self.event is AlertEvent.GONE:
            return f"[gone] {self.source}: {finding.message}"
        again = " (changed)" if self.event is AlertEvent.CHANGED else ""
        lines = [
            f"{_MARKS[finding.severity]}{again} {self.source}: {finding.message}",
            f"→ {finding.advice}",
            self.link,
        ]
        return "\n".join(filter(None, lines))


class Followed(NamedTuple):
    """A finding that is or was there. `is_reported`: the last report says that it is there.

    `since_ms` is when it appeared, or None while it is away. `reported_ms` is when it was last reported to be there,
    with that cause and size.
    """

    name: str
    since_ms: int | None
    seen_ms: int
    reported_ms: int | None
    is_reported: bool
    cause: str
    size: int
    finding: Finding


class Decision(NamedTuple):
    """What to write, and what to report."""

    kept: list[Followed]
    dropped: list[str]
    reported: list[tuple[AlertEvent, Followed]]


def named(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Return the findings by names that stay the same from one look to the next."""
    by_name: dict[str, Finding] = {}
    for finding in findings:
        name = " ".join([finding.code, *(str(finding.evidence[key]) for key in _SUBJECT if key in finding.evidence)])
        if "more" in finding.evidence:
            name = f"{finding.code}, others"
        if name in by_name:  # such as failures of one task for two reasons
            name = f"{name} {_cause_of(finding)}"
        by_name.setdefault(name, finding)
    return by_name


def decide_alerts(
    followed: Iterable[Followed], findings: Mapping[str, Finding], at_ms: int, after_ms: int, period_ms: int
) -> Decision:
    """Return which findings are reported now.

    A finding must be there, or gone, for `after_ms` first. It is reported to be there once in `period_ms` at most, so
    one that comes and goes all the time is two alerts in each period. Times in the future, after a clock was set back,
    count as now.
    """
    decision = Decision([], [], [])
    away = {one.name: _not_after(one, at_ms) for one in followed}
    for name, finding in findings.items():
        known = away.pop(name, None) or Followed(
            name, None, at_ms, None, is_reported=False, cause="", size=0, finding=finding
        )
        since_ms = at_ms if known.since_ms is None else known.since_ms
        now = known._replace(since_ms=since_ms, seen_ms=at_ms, finding=finding)
        may_tell = known.reported_ms is None or at_ms - known.reported_ms >= period_ms
        cause, size = _cause_of(finding), _size_of(finding)
        event = None
        if not known.is_reported and at_ms - since_ms >= after_ms:
            event = AlertEvent.APPEARED
        elif known.is_reported and (cause != known.cause or size >= 10 * max(1, known.size)):
            event = AlertEvent.CHANGED
        if event is not None and may_tell:
            now = now._replace(reported_ms=at_ms, is_reported=True, cause=cause, size=size)
            decision.reported.append((event, now))
        decision.kept.append(now)
    for known in away.values():
        gone = known._replace(since_ms=None)
        if known.is_reported and at_ms - known.seen_ms >= after_ms:
            gone = gone._replace(is_reported=False)
            decision.reported.append((AlertEvent.GONE, gone))
        if gone.is_reported or (gone.reported_ms is not None and at_ms - gone.reported_ms < period_ms):
            decision.kept.append(gone)
        else:
            decision.dropped.append(known.name)
    return decision


def _not_after(known: Followed, at_ms: int) -> Followed:
    return known._replace(
        since_ms=None if known.since_ms is None else min(known.since_ms, at_ms),
        seen_ms=min(known.seen_ms, at_ms),
        reported_ms=None if known.reported_ms is None else min(known.reported_ms, at_ms),
    )


def _cause_of(finding: Finding) -> str:
    return " ".join(str(finding.evidence[key]) for key in _CAUSE if key in finding.evidence)


def _size_of(finding: Finding) -> int:
    """Return how many jobs are concerned: ten times as many are a change."""
    counts = [finding.evidence.get(key) for key in _SIZE]
    return max((count for count in counts if isinstance(count, int)), default=0)
