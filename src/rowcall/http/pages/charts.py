"""Pictures as inline SVG, drawn with classes only: their colours are in the style sheet."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from rowcall.domain.job import Activity, Period

WINDOWS = {"1h": 3600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
"""The periods that pages offer, in seconds."""

WIDTH, HEIGHT = 960, 180
_LINE_WIDTH, _LINE_HEIGHT = 120, 24


def activity_chart(activity: Activity) -> Markup:
    """Return bars of attempts that ended, with a line of arrivals over them."""
    periods = activity.periods
    about = "about " if activity.arrivals_estimated else ""
    highest = _round_up(max((max(_ended(period), period.arrived or 0) for period in periods), default=0))
    step = WIDTH / max(len(periods), 1)

    def y(count: float) -> float:
        return round(HEIGHT - HEIGHT * count / highest, 1)

    parts = [
        f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y(highest * share)}" y2="{y(highest * share)}"/>'
        for share in (0, 0.5, 1)
    ]
    for number, period in enumerate(periods):
        x, base = round(number * step + step * 0.12, 1), 0
        bars = []
        for outcome in ("succeeded", "retried", "failed"):
            count = getattr(period, outcome)
            if count:
                height = round(max(y(base) - y(base + count), 1.0), 1)
                shape = f'x="{x}" y="{y(base + count)}" width="{round(step * 0.76, 1)}" height="{height}"'
                bars.append(f'<rect class="bar {outcome}" {shape}/>')
                base += count
        hit = f'<rect class="hit" x="{round(number * step, 1)}" y="0" width="{round(step, 1)}" height="{HEIGHT}"/>'
        open_ = ' class="open"' if number == len(periods) - 1 else ""
        parts.append(f"<g{open_}>{''.join(bars)}{hit}<title>{_said(period, about)}</title></g>")
    # the last period is not over: a line that falls there would look like an outage
    known = [(number, period.arrived) for number, period in enumerate(periods[:-1]) if period.arrived is not None]
    points = " ".join(f"{round(number * step + step / 2, 1)},{y(count)}" for number, count in known)
    parts.append(f'<polyline class="arrivals" points="{points}"/>')
    shape = f'class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img"'
    label = "Jobs that arrived and attempts that ended"
    svg = f'<svg {shape} aria-label="{label}">{"".join(parts)}</svg>'
    return Markup(f'<div class="plot"><span class="most">{highest:,}</span>{svg}</div>{_axis(activity)}')


def _axis(activity: Activity) -> str:
    """Return some times below the bars, as text that does not stretch with them."""
    form, count = "%H:%M" if activity.span <= 3600 else "%d %b", len(activity.periods)
    times = [
        f'<text x="{round(100 * number / count, 2)}%" y="12">{activity.periods[number].at.strftime(form)}</text>'
        for number in range(0, count, max(count // 6, 1))
        if number <= count * 0.9  # otherwise there is not enough room at the end
    ]
    return f'<svg class="axis" aria-hidden="true">{"".join(times)}</svg>'


def sparkline(counts: Sequence[int]) -> Markup:
    """Return a small picture of counts over time."""
    highest, step = max(max(counts, default=0), 1), _LINE_WIDTH / max(len(counts), 1)
    bars = "".join(
        f'<rect x="{round(number * step, 1)}" y="{round(_LINE_HEIGHT * (1 - count / highest), 1)}"'
        f' width="{round(max(step - 0.6, 0.6), 1)}" height="{round(_LINE_HEIGHT * count / highest, 1)}"/>'
        for number, count in enumerate(counts)
        if count
    )
    size = f'width="{_LINE_WIDTH}" height="{_LINE_HEIGHT}" viewBox="0 0 {_LINE_WIDTH} {_LINE_HEIGHT}"'
    said = f"{sum(counts):,} failed attempts"
    return Markup(f'<svg class="spark" {size} role="img" aria-label="{said}"><title>{said}</title>{bars}</svg>')


def _ended(one: Period) -> int:
    return one.succeeded + one.retried + one.failed


def _said(period: Period, about: str) -> str:
    arrived = "" if period.arrived is None else f"{about}{period.arrived:,} arrived, "
    outcomes = f"{period.succeeded:,} succeeded, {period.retried:,} retried, {period.failed:,} failed"
    return f"{period.at:%Y-%m-%d %H:%M} UTC: {arrived}{outcomes}"


def _round_up(count: int) -> int:
    """
    >>> [_round_up(count) for count in (0, 3, 7, 12, 480, 1001)]
    [4, 4, 8, 12, 500, 1200]
    """
    if count < 10:
        return next(step for step in (4, 6, 8, 10) if count <= step)
    scale: int = 10 ** (len(str(count)) - 2)
    return next(step * scale for step in (10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100) if count <= step * scale)
