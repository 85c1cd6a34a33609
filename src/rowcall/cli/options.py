"""Options that several commands have, and durations as people type them."""

from __future__ import annotations

import re

import click

_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.ASCII)


def typed_seconds(typed: str) -> float:
    """
    >>> typed_seconds("90"), typed_seconds("5m"), typed_seconds("1.5h")
    (90.0, 300.0, 5400.0)
    """
    found = _DURATION.fullmatch(typed)
    if found is None or found[2] not in _UNITS:
        raise click.BadParameter(f"{typed!r} is not a duration; write seconds, or 90s, 5m, 1h, 2d")
    return float(found[1]) * _UNITS[found[2]]


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", default=20, show_default=True, help="Show at most N rows."
)
window_option = click.option(
    "--window",
    type=typed_seconds,
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="Period of the rates and percentiles: 90s, 5m, 1h, 2d, …",
)
