"""Pictures as inline SVG, drawn with classes only: their colours are in the style sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from urllib.parse import urlencode

from markupsafe import Markup, escape

from rowcall.base.text import duration
from rowcall.domain.job import Activity, ActivityMark, Period

WIDTH, HEIGHT = 960, 180
SHARES = ("p50", "p95", "p99")
_LINE_WIDTH, _LINE_HEIGHT = 120, 24
_OUTCOMES = ("succeeded", "retried", "failed")
_MARKS = {"deploy": "new code: {}", "no worker": "no worker was alive"}


class _Scale:
    """Where counts and periods are in a chart of some height."""

    def __init__(self, activity: Activity, highest: float) -> None:
        self.activity, self.highest = activity, highest
        self.step = WIDTH / max(len(activity.periods), 1)

    @property
    def ticks(self) -> list[float]:
        return [self.highest, self.highest / 2, 0]

    def y(self, count: float) -> float:
        return round(HEIGHT - HEIGHT * count / self.highest, 1)

    def x_of(self, mark: ActivityMark) -> tuple[float, float]:
        """Return where a mark begins and ends."""
        begin = self.activity.periods[0].at
        from_begin = [(at - begin).total_seconds() / self.activity.span for at in (mark.at, mark.until or mark.at)]
        last = float(len(self.activity.periods))
        first, end = from_begin[0], from_begin[1] if mark.until or mark.kind == "deploy" else last
        return round(max(first, 0) * self.step, 1), round(min(end, last) * self.step, 1)

    def line(self, name: str, value_of: Callable[[Period], float | None]) -> str:
        """Return a line through the values that are known, broken where one is not.

        The last period is not over: a line that falls there would look like an outage.
        """
        parts: list[list[str]] = [[]]
        for number, period in enumerate(self.activity.periods[:-1]):
            value = value_of(period)
            if value is None:
                parts.append([])
            else:
                parts[-1].append(f"{round(number * self.step + self.step / 2, 1)},{self.y(value)}")
        return "".join(f'<polyline class="line {name}" points="{" ".join(part)}"/>' for part in parts if part)


def activity_chart(activity: Activity, jobs: str, **filters: str) -> Markup:
    """Return bars of attempts that ended, with lines of arrivals and pending jobs over them.

    Each bar is a link to the jobs that ended in its period: `jobs` is the address of the page of jobs.
    """
    periods = activity.periods
    scale = _Scale(activity, _round_up(max((max(_ended(one), one.arrived or 0) for one in periods), default=0)))
    # on its own scale: a backlog may be a thousand times what a period brings
    waiting = _Scale(activity, _round_up(max((one.pending or 0 for one in periods), default=0)))
    right = [f"{tick:,.0f}" for tick in waiting.ticks] if any(one.pending for one in periods) else []
    about = "about " if activity.arrivals_estimated else ""

    def bars(number: int, period: Period) -> Iterator[str]:
        x, base = round(number * scale.step + scale.step * 0.12, 1), 0
        for outcome in _OUTCOMES:
            if count := getattr(period, outcome):
                height = round(max(scale.y(base) - scale.y(base + count), 1.0), 1)
                shape = f'x="{x}" y="{scale.y(base + count)}" width="{round(scale.step * 0.76, 1)}" height="{height}"'
                yield f'<rect class="bar {outcome}" {shape}/>'
                base += count

    def link(period: Period) -> str:
        until = period.at + timedelta(seconds=activity.span)
        query = {**filters, "finished_after": period.at.isoformat(), "finished_before": until.isoformat()}
        return f' href="{escape(f"{jobs}?{urlencode(query)}")}"'

    lines = scale.line("arrivals", lambda one: one.arrived)
    if right:
        lines += waiting.line("waiting", lambda one: one.pending)
    said = "Jobs that arrived and were pending, and attempts that ended"
    left = [f"{tick:,.0f}" for tick in scale.ticks]
    return _chart(scale, said, lines, bars, link, lambda one: _said(one, about), left, right)


def times_chart(activity: Activity, kind: str) -> Markup:
    """Return lines of the percentiles of `run` or `wait`."""
    found = [getattr(one, kind) for one in activity.periods]
    highest = _round_up_seconds(max((one.p99 for one in found if one is not None), default=0))
    scale = _Scale(activity, highest)

    def share(name: str) -> Callable[[Period], float | None]:
        return lambda one: getattr(getattr(one, kind), name, None)

    def text(period: Period) -> str:
        times = getattr(period, kind)
        if times is None:
            return f"{period.at:%Y-%m-%d %H:%M} UTC: no attempt ended"
        named = ", ".join(f"{name} {duration(getattr(times, name))}" for name in SHARES)
        return f"{period.at:%Y-%m-%d %H:%M} UTC: {named}"

    lines = "".join(scale.line(name, share(name)) for name in SHARES)
    said = "How long attempts ran" if kind == "run" else "How long jobs waited"
    left = [duration(tick) if tick else "0" for tick in scale.ticks]
    return _chart(scale, said, lines, lambda number, one: iter(()), lambda one: "", text, left)


def _chart(
    scale: _Scale,
    label: str,
    lines: str,
    bars: Callable[[int, Period], Iterator[str]],
    link: Callable[[Period], str],
    text_of: Callable[[Period], str],
    left: Sequence[str],
    right: Sequence[str] = (),
) -> Markup:
    """Return the picture, with texts at its three lines: on the left, and on the right if they are given."""
    heights = [scale.y(one) for one in scale.ticks]
    parts = [f'<line class="grid" x1="0" x2="{WIDTH}" y1="{one}" y2="{one}"/>' for one in heights]
    parts += map(str, _outages(scale))
    for number, period in enumerate(scale.activity.periods):
        x, width = round(number * scale.step, 1), round(scale.step, 1)
        hit = f'<rect class="hit" x="{x}" y="0" width="{width}" height="{HEIGHT}"/>'
        open_ = " open" if number == len(scale.activity.periods) - 1 else ""
        text, address = escape(text_of(period)), link(period)
        named = f'class="period{open_}"'
        inner = f"{''.join(bars(number, period))}{hit}<title>{text}</title>"
        # one stop for the keyboard is enough: the tab key would need 60 presses to leave the chart
        parts.append(
            f'<a {named}{address} tabindex="-1" aria-label="{text}">{inner}</a>'
            if address
            else f"<g {named}>{inner}</g>"
        )
    parts += [lines, *map(str, _deploys(scale))]
    shape = f'class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="group"'
    svg = f'<svg {shape} aria-label="{label}">{"".join(parts)}</svg>'
    tip = '<p class="tip" hidden=""></p>'
    plot = f'<div class="plot">{_ticks("left", left)}{svg}{_ticks("right", right)}{tip}</div>'
    return Markup(f'<div class="drawn{" two" if right else ""}">{plot}{_axis(scale)}</div>')


def _ticks(side: str, texts: Sequence[str]) -> str:
    return f'<div class="ticks {side}">{"".join(f"<span>{escape(one)}</span>" for one in texts)}</div>' if texts else ""


def _outages(scale: _Scale) -> Iterator[str]:
    for mark in scale.activity.marks:
        if mark.kind == "no worker":
            begin, end = scale.x_of(mark)
            text = _MARKS[mark.kind]
            shape = f'x="{begin}" y="0" width="{round(max(end - begin, 2), 1)}" height="{HEIGHT}"'
            yield f'<rect class="outage" {shape}><title>{text}</title></rect>'


def _deploys(scale: _Scale) -> Iterator[str]:
    for mark in scale.activity.marks:
        if mark.kind == "deploy":
            x, _ = scale.x_of(mark)
            text = escape(_MARKS[mark.kind].format(mark.detail))
            yield f'<g class="deploy"><line x1="{x}" x2="{x}" y1="0" y2="{HEIGHT}"/><title>{text}</title></g>'


def _axis(scale: _Scale) -> str:
    """Return some times below the bars, as text that does not stretch with them."""
    activity, count = scale.activity, len(scale.activity.periods)
    is_time = activity.span <= 3600
    times = [
        f'<text x="{round(100 * number / count, 2)}%" y="12" data-at="{at.isoformat()}"'
        f' data-form="{"time" if is_time else "day"}">{at.strftime("%H:%M" if is_time else "%d %b")}</text>'
        for number in range(0, count, max(count // 6, 1))
        if number <= count * 0.9  # otherwise there is not enough room at the end
        for at in [activity.periods[number].at]
    ]
    return f'<svg class="axis" aria-hidden="true">{"".join(times)}</svg>'


def sparkline(failed: Sequence[int], others: Sequence[int] = (), what: str = "failed attempts") -> Markup:
    """Return a small picture of counts over time, with failures on top."""
    base = others or [0] * len(failed)
    highest = max((one + other for one, other in zip(failed, base, strict=True)), default=0) or 1
    step, parts = _LINE_WIDTH / max(len(failed), 1), []
    for number, (one, other) in enumerate(zip(failed, base, strict=True)):
        x, width = round(number * step, 1), round(max(step - 0.6, 0.6), 1)
        for kind, low, count in (("others", 0, other), ("failed", other, one)):
            if count:
                y, height = _LINE_HEIGHT * (1 - (low + count) / highest), _LINE_HEIGHT * count / highest
                parts.append(
                    f'<rect class="{kind}" x="{x}" y="{round(y, 1)}" width="{width}" height="{round(height, 1)}"/>'
                )
    size = f'width="{_LINE_WIDTH}" height="{_LINE_HEIGHT}" viewBox="0 0 {_LINE_WIDTH} {_LINE_HEIGHT}"'
    text = f"{sum(failed) + sum(others):,} {what}"
    return Markup(
        f'<svg class="spark" {size} role="img" aria-label="{text}"><title>{text}</title>{"".join(parts)}</svg>'
    )


def _ended(one: Period) -> int:
    return one.succeeded + one.retried + one.failed


def _said(period: Period, about: str) -> str:
    arrived = "" if period.arrived is None else f"{about}{period.arrived:,} arrived, "
    outcomes = f"{period.succeeded:,} succeeded, {period.retried:,} retried, {period.failed:,} failed"
    pending = "" if period.pending is None else f", {period.pending:,.0f} pending"
    return f"{period.at:%Y-%m-%d %H:%M} UTC: {arrived}{outcomes}{pending}"


def _round_up(count: float) -> int:
    """
    >>> [_round_up(count) for count in (0, 3, 7, 12, 13, 480, 1001)]
    [4, 4, 8, 12, 16, 500, 1200]
    """
    if count <= 10:
        return next(step for step in (4, 6, 8, 10) if count <= step)
    scale: int = 10 ** (len(str(int(count))) - 2)
    return next(step * scale for step in (10, 12, 16, 20, 24, 30, 40, 50, 60, 80, 100, 200) if count <= step * scale)


def _round_up_seconds(seconds: float) -> float:
    """
    >>> [_round_up_seconds(seconds) for seconds in (0, 0.013, 7, 130, 9000)]
    [0.01, 0.02, 10, 180, 10800]
    """
    steps = (1, 2, 4, 10, 20, 40, 60, 120, 180, 240, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200)
    if seconds <= 0.01:
        return 0.01
    whole = next((step for step in steps if seconds <= step), None)
    if whole is None:
        return 86_400.0 * -(-seconds // 86_400)
    return next((step for step in (0.02, 0.05, 0.1, 0.2, 0.5) if seconds <= step), whole)
