"""Old rows: jobs that finished before, as many as were asked for."""

from __future__ import annotations

from contextlib import closing

from benchmarks.contestants.field import History
from benchmarks.database import Database, Postgres, connect
from benchmarks.field.place import Place
from benchmarks.fill import filling

RUN_FIRST = 5


def make_old(place: Place, count: int) -> None:
    """Run a few jobs, then copy one of them. Rowcall's tables have triggers, so they are filled by its own bench."""
    history = place.peer.history
    assert history is not None
    if place.peer.ours:
        with filling(place.url) as filler:
            filler.finished(count, "work")
        return
    place.enqueue("noop", RUN_FIRST)
    place.start_worker()
    place.wait(lambda: place.left() == 0)
    place.kill_worker()
    with closing(connect(place.url)) as database:
        _copy(database, history, count)
        database.settle_down()


def _copy(database: Database, history: History, count: int) -> None:
    server = isinstance(database, Postgres)
    columns = [name for name in _columns(database, history.table, server) if name != history.id]
    names, values = list(columns), list(columns)
    if history.new_id:
        names, values = [history.id, *names], [history.new_id, *values]
    numbers = (
        "numbers as (select generate_series(1, ?::int))"
        if server
        else "numbers as (select 1 as n union all select n + 1 from numbers where n < ?)"
    )
    if server:
        database.rows("set session_replication_role = replica")  # without triggers
    database.rows(
        f"with recursive {numbers}, finished as (select * from {history.table} where {history.finished} limit 1)"
        f" insert into {history.table} ({', '.join(names)}) select {', '.join(values)} from numbers, finished",
        count,
    )


def _columns(database: Database, table: str, server: bool) -> list[str]:
    if server:
        query = "select attname from pg_attribute where attrelid = ?::regclass and attnum > 0 and not attisdropped"
        return [name for (name,) in database.rows(query, table)]
    return [row[1] for row in database.rows(f"pragma table_info({table})")]
