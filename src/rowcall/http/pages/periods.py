"""The period that a page is about, and what happened in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from markupsafe import Markup
from starlette.requests import Request

from rowcall.http.endpoint import Call, EndpointInput, converted
from rowcall.http.pages.charts import sparkline
from rowcall.operations.stats import throughput

WINDOWS = {"1h": 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}
"""The periods that pages offer, in seconds."""
DEFAULT = "1h"


class PeriodQuery(EndpointInput, frozen=True, kw_only=True):
    window: str = DEFAULT


class ChosenPeriod(NamedTuple):
    name: str
    seconds: float

    def shown(self) -> dict[str, object]:
        return {"window": self.name, "windows": list(WINDOWS)}


def chosen_period(request: Request) -> ChosenPeriod:
    asked = converted(request.query_params.multi_items(), PeriodQuery).window
    name = asked if asked in WINDOWS else DEFAULT
    return ChosenPeriod(name, WINDOWS[name])


async def sparklines(call: Call, seconds: float, name_of: Callable[[str, str], str | None]) -> dict[str, Markup]:
    """Return a small picture of the attempts that ended, by the name that queues and tasks have; None is left out."""
    sums: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for group, ended in (await call.read(throughput(call.queue, window=seconds))).items():
        if (name := name_of(*group)) is not None:
            for total, counts in zip(sums[name], ended, strict=True):
                total.extend([0] * (len(counts) - len(total)))
                total[:] = [one + other for one, other in zip(total, counts, strict=True)]
    return {name: sparkline(failed, others, "attempts ended") for name, (failed, others) in sums.items()}
