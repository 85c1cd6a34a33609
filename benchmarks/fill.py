"""Large tables, made quickly: rows by plain SQL, in one transaction, indexes last."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import NamedTuple

from benchmarks.app import open_app
from benchmarks.database import Database, connect, is_mysql, is_postgres
from benchmarks.noop import ARGUMENTS
from rowcall.store.counts.pruning import PAST_KEPT_MS
from rowcall.store.counts.tallies import bucket_of
from rowcall.store.queries.counts import DAY_MS, MINUTE_MS, SPANS

MOST_BUCKETS = 80


class Words(NamedTuple):
    """What each database calls it."""

    counter: str
    later_by_value: str
    indexes: str
    quickly: tuple[str, ...]
    safely: tuple[str, ...]


SQLITE = Words(
    counter="with recursive counter (number) as (select 1 union all select number + 1 from counter where number < ?)",
    later_by_value="? + number",
    indexes="select name, sql from sqlite_master where type = 'index' and tbl_name = 'rowcall_job' and sql is not null",
    quickly=("pragma synchronous = off", "pragma cache_size = -400000"),
    safely=("pragma synchronous = full", "pragma wal_checkpoint(truncate)"),
)

POSTGRES = Words(
    counter="with counter (number) as (select generate_series(1, ?::int))",
    later_by_value="?::timestamptz + number * interval '1 millisecond'",
    indexes="select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index"
    " where indrelid = 'rowcall_job'::regclass and not indisprimary",
    quickly=("set synchronous_commit = off",),
    safely=("vacuum analyze", "checkpoint"),
)


MYSQL = Words(
    counter=SQLITE.counter,
    later_by_value="cast(? as datetime(3)) + interval number * 1000 microsecond",
    indexes="select 1, 1 from dual where false",  # to drop one commits
    quickly=("set unique_checks = 0", "set foreign_key_checks = 0"),
    safely=("analyze table rowcall_job, rowcall_ready",),
)


def make_queue(url: str) -> None:
    """An empty queue, as Rowcall makes it."""
    jobs = open_app(url).jobs
    jobs.migrate()
    jobs.close()


class Filler:
    """Inserts rows into the jobs' table."""

    def __init__(self, database: Database, words: Words) -> None:
        self._database = database
        self._words = words
        self._now_ms = time.time_ns() // 1_000_000

    def waiting(self, count: int, kind: str, *, priority: int = 0, queue: str = "default") -> range:
        """Write jobs that may run now. Return their ids."""
        return self._insert(count, {"type": kind, "status": "pending", "priority": priority, "queue": queue})

    def running(self, count: int, kind: str, *, queue: str) -> None:
        """Jobs that a worker claimed a minute ago."""
        jobs = self.waiting(count, kind, queue=queue)
        then = self._database.moment(self._now_ms - MINUTE_MS)
        self._database.rows("delete from rowcall_ready where id between ? and ?", jobs[0], jobs[-1])
        self._database.rows(
            "insert into rowcall_claim (job_id, lease, holder, worker, attempt, claimed_at, started_at)"
            " select id, 1, 1, 'busy:1', 1, ?, ? from rowcall_job where id between ? and ?",
            then,
            then,
            jobs[0],
            jobs[-1],
        )

    def future(self, count: int, kind: str, *, priority: int, queue: str = "default") -> None:
        """Jobs that are due tomorrow, each a millisecond after the other."""
        columns = {"type": kind, "status": "scheduled", "priority": priority, "queue": queue}
        self._insert(count, columns, run_at=self._database.moment(self._now_ms + DAY_MS))

    def retrying(self, count: int, kind: str, *, queue: str, error_code: str) -> None:
        """Jobs that wait for a retry, each a millisecond after the other, from tomorrow on."""
        columns = {"type": kind, "status": "scheduled", "queue": queue, "attempt": 1, "lease": 2}
        columns |= {"error_code": error_code, "error_detail": "what went wrong", "worker": "long:gone:1"}
        self._insert(count, columns, run_at=self._database.moment(self._now_ms + DAY_MS))

    def finished(
        self,
        count: int,
        kind: str,
        *,
        status: str = "succeeded",
        queue: str = "default",
        hours_ago: float = 1,
        error_code: str | None = None,
        tags: str | None = None,
    ) -> None:
        """Jobs that ended some hours ago, each a millisecond after the other."""
        then = self._now_ms - round(hours_ago * 3_600_000)
        columns = {
            "type": kind,
            "status": status,
            "queue": queue,
            **({"error_code": error_code, "error_detail": "what went wrong"} if error_code else {}),
            **({"tags": tags} if tags else {}),
            "attempt": 1,
            "lease": 2,
            "worker": "long:gone:1",
            "claimed_at": self._database.moment(then),
            "started_at": self._database.moment(then),
        }
        self._insert(count, columns, finished_at=self._database.moment(then + 5))

    def history(self, kind: str, *, queue: str, error_code: str) -> None:
        """A month in which jobs of a task ended in every minute, as folding leaves it."""
        edges = [*((self._now_ms - span.after_ms) // span.ms * span.ms for span in SPANS), self._now_ms - PAST_KEPT_MS]
        for span, (until, since) in zip(SPANS, pairwise(edges), strict=True):
            minutes = span.ms // MINUTE_MS
            durations = _histogram(minutes)
            for at in range(-(-since // span.ms) * span.ms, until, span.ms):
                span_values = (self._database.moment(at), span.ms, queue, kind)
                for row in (
                    (*span_values, "retried", error_code, 2 * minutes, durations, durations),
                    (*span_values, "succeeded", "", 58 * minutes, "{}", "{}"),
                ):
                    self._database.rows(
                        "insert into rowcall_history (at, span_ms, queue, type, outcome, error_code, jobs, waits, runs)"
                        " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        *row,
                    )

    def _insert(self, count: int, columns: Mapping[str, object], **rising: object) -> range:
        """Insert rows. The times in `rising` are a millisecond later in each."""
        yesterday = self._database.moment(self._now_ms - DAY_MS)
        values = {"payload": json.dumps(ARGUMENTS), "created_at": yesterday, "run_at": yesterday, **columns, **rising}
        marks = ", ".join(self._words.later_by_value if name in rising else "?" for name in values)
        before = self._last_id()
        self._database.rows(
            f"insert into rowcall_job ({', '.join(values)}) {self._words.counter} select {marks} from counter",
            count,
            *values.values(),
        )
        return range(before + 1, self._last_id() + 1)

    def _last_id(self) -> int:
        last: int | None = self._database.rows("select max(id) from rowcall_job")[0][0]
        return last or 0


def _histogram(minutes: int) -> str:
    """Durations from 1 ms to some minutes of 60 jobs a minute: the more there are, the more buckets they fall into."""
    buckets = min(MOST_BUCKETS, 20 + minutes)
    ends = {
        bucket_of(round(1.15 ** (number * MOST_BUCKETS / buckets))): 60 * minutes // buckets
        for number in range(buckets)
    }
    return json.dumps(ends)


@contextmanager
def filling(url: str, *, indexes_last: bool = True) -> Iterator[Filler]:
    """Fill a queue's table. Not durable while it is filled; all of it is on disk, and settled down, at the end."""
    words = MYSQL if is_mysql(url) else POSTGRES if is_postgres(url) else SQLITE
    with closing(connect(url)) as database:
        for statement in words.quickly:
            database.rows(statement)
        database.rows("begin")
        indexes = database.rows(words.indexes) if indexes_last else []
        # triggers name these two
        indexes = [index for index in indexes if not str(index[0]).endswith(("job_fair", "job_turn"))]
        for name, _ in indexes:
            database.rows(f"drop index {name}")
        yield Filler(database, words)
        for _, definition in indexes:
            database.rows(definition)
        database.rows("commit")
        for statement in words.safely:
            database.rows(statement)


def refill(url: str, kind: str, count: int, *, priority: int) -> None:
    """Put back what was taken, so that `count` jobs of this task and priority wait again."""
    with closing(connect(url)) as database:
        query = "select count(*) from rowcall_ready where type = ? and rank = ?"
        waiting: int = database.rows(query, kind, ~priority)[0][0]
    if waiting < count:
        with filling(url, indexes_last=False) as fill:
            fill.waiting(count - waiting, kind, priority=priority)
