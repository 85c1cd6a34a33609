"""procrastinate with what made it fastest here: 30 jobs at once on ten connections, uvloop, jobs deleted once they have
succeeded, no LISTEN, nothing logged. More jobs at a time were not faster.
"""

from __future__ import annotations

import logging

from procrastinate import App, PsycopgConnector

from benchmarks.contestants import Begin, Count
from benchmarks.noop import ARGUMENTS, MANY

AT_ONCE = 30
CONNECTIONS = 10
LEFT = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"


async def fill(url: str, jobs: int) -> None:
    async with _app(url).open_async() as app:
        await app.schema_manager.apply_schema_async()
        deferrer = app.configure_task("noop", allow_unknown=True)
        for start in range(0, jobs, MANY):
            await deferrer.batch_defer_async(*[ARGUMENTS] * min(MANY, jobs - start))


async def drain(url: str, begin: Begin, count: Count) -> None:
    async def noop(n: int, to: str) -> None:
        count(1)

    async with _app(url).open_async() as app:
        app.task(name="noop")(noop)
        begin()
        await app.run_worker_async(
            concurrency=AT_ONCE,
            wait=False,
            listen_notify=False,
            delete_jobs="successful",
            install_signal_handlers=False,
        )


def _app(url: str) -> App:
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    return App(connector=PsycopgConnector(conninfo=url, min_size=CONNECTIONS, max_size=CONNECTIONS))
