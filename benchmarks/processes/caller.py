"""Alternate between `enqueue` and a bare INSERT on the caller's connections: caller URL TRANSACTIONS STATEMENTS."""

from __future__ import annotations

import asyncio
import json
import sys

from benchmarks.app import open_app
from benchmarks.bare import new_bare_queue
from benchmarks.caller import CALLER_CONNECTIONS
from benchmarks.caller.timing import CallerConnection, What
from benchmarks.database import is_postgres
from benchmarks.noop import MANY
from benchmarks.statistics import percentile

TURNS = 10
WARM_UP = 20
WHATS: tuple[What, What] = ("bare", "enqueue")


async def main() -> None:
    url, (transactions, statements) = sys.argv[1], map(int, sys.argv[2:4])
    if transactions % TURNS or statements % MANY:
        sys.exit(f"must be multiples of {TURNS} and {MANY}")
    figures: dict[str, float] = {}
    app = open_app(url)
    with app.jobs:
        app.jobs.migrate()
        new_bare_queue(url).close()
        for name, opened in CALLER_CONNECTIONS["postgres" if is_postgres(url) else "sqlite"].items():
            async with opened(url, app.noop_sync) as connection:
                found = await measured(connection, transactions, statements)
            figures |= {f"{name}_{figure}": value for figure, value in found.items()}
    print(json.dumps(figures))


async def measured(connection: CallerConnection, transactions: int, statements: int) -> dict[str, float]:
    """Medians, in microseconds."""
    whole: dict[What, list[float]] = {what: [] for what in WHATS}
    inside: dict[What, list[float]] = {what: [] for what in WHATS}
    for what in WHATS:
        await connection.transactions(what, WARM_UP)
    for _ in range(TURNS):
        for what in WHATS:
            whole[what] += await connection.transactions(what, transactions // TURNS)
    for _ in range(statements // MANY):
        for what in WHATS:
            inside[what] += await connection.statements(what, MANY)
    figures = {f"{what}_us": percentile(seconds, 50) * 1e6 for what, seconds in whole.items()}
    figures |= {f"inside_{what}_us": percentile(seconds, 50) * 1e6 for what, seconds in inside.items()}
    return {**figures, "inside_ratio": figures["inside_enqueue_us"] / figures["inside_bare_us"]}


if __name__ == "__main__":
    asyncio.run(main())
