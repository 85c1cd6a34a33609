"""When the handler and the steps of a job ran and waited, as bars on one axis: for the page of the job and for text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from rowcall.domain.job import FINISHED, Attempt, Job
from rowcall.domain.step import RecordedStep, StepKind, StepStatus

MOST_BARS = 60
WAITING_PER_RUNNING = 1.0
"""How much room all waits may take, per room of all runs: a wait of days would leave none for the steps."""

Moments = tuple[float, float]


class Stretch(NamedTuple):
    """A part of the axis, which is from 0 to 1."""

    begin: float
    end: float
    waits: bool = False


class Bar(NamedTuple):
    """A line of the picture. `step` is None for the handler, whose spans are its attempts."""

    label: str
    spans: Sequence[Stretch]
    seconds: float
    is_open: bool
    """Whether it runs or waits now."""
    step: RecordedStep | None = None


def waterfall(job: Job, attempts: Sequence[Attempt], steps: Sequence[RecordedStep], now: datetime) -> list[Bar]:
    """Return the bars, the handler first; nothing for a job without steps. Long waits are drawn shorter."""
    is_over = job.status in FINISHED
    if not steps:
        return []
    latest = (job.finished_at or now if is_over else now).timestamp()
    runs = [_moments(one.started_at, one.finished_at, latest) for one in attempts if one.started_at is not None]
    shown = steps[-MOST_BARS:]
    lengths = [_moments(step.started_at, step.finished_at, latest) for step in shown]
    place = _scale([*runs, *lengths], runs)
    handler = Bar(
        "handler",
        [Stretch(place(begin), place(end)) for begin, end in runs],
        sum(end - begin for begin, end in runs),
        not is_over and any(one.started_at is not None and one.finished_at is None for one in attempts),
    )
    bars = [
        _bar(step, Stretch(place(begin), place(end), _waits(step)), end - begin, is_over)
        for step, (begin, end) in zip(shown, lengths, strict=True)
    ]
    return [handler, *bars] if runs else bars


def label_of(step: RecordedStep) -> str:
    return step.name if step.kind is StepKind.STEP else f"{step.kind} {step.name}".strip()


def _moments(begin: datetime, end: datetime | None, latest: float) -> Moments:
    return begin.timestamp(), max(begin.timestamp(), latest if end is None else end.timestamp())


def _waits(step: RecordedStep) -> bool:
    """Return whether most of its time is spent waiting: for a time, a signal, a child, or the next try."""
    return step.kind not in (StepKind.STEP, StepKind.PATCH) or step.failures > 0


def _bar(step: RecordedStep, stretch: Stretch, seconds: float, is_over: bool) -> Bar:
    return Bar(label_of(step), [stretch], seconds, step.status is StepStatus.WAITING and not is_over, step)


def _scale(spans: Sequence[Moments], runs: Sequence[Moments]) -> Callable[[float], float]:
    """Return where on the axis a moment is. What is between the runs is drawn shorter if it would take most of it."""
    moments = sorted({moment for span in spans for moment in span})
    gaps = list(pairwise(moments))
    ran = [_is_within(gap, runs) for gap in gaps]
    running = sum(end - begin for (begin, end), runs_then in zip(gaps, ran, strict=True) if runs_then)
    waiting = moments[-1] - moments[0] - running
    share = min(1.0, WAITING_PER_RUNNING * running / waiting) if running and waiting else 1.0
    places = [0.0]
    for (begin, end), runs_then in zip(gaps, ran, strict=True):
        places.append(places[-1] + (end - begin) * (1.0 if runs_then else share))
    whole = places[-1] or 1.0

    def place(moment: float) -> float:
        return places[bisect_right(moments, moment) - 1] / whole  # each moment is one of them

    return place


def _is_within(gap: Moments, runs: Sequence[Moments]) -> bool:
    return any(begin <= gap[0] and gap[1] <= end for begin, end in runs)


def text_bar(bar: Bar, width: int, marks: str = "█░") -> str:
    """Return a bar as text, with a mark for what ran, and one for what waited.

    >>> text_bar(Bar("", [Stretch(0.0, 0.25), Stretch(0.5, 1.0, waits=True)], 1.0, False), 8)
    '██  ░░░░'
    """
    drawn = [" "] * width
    for begin, end, waits in bar.spans:
        first = min(width - 1, round(begin * width))
        for index in range(first, max(first + 1, round(end * width))):
            drawn[index] = marks[waits]
    return "".join(drawn)
