"""How each figure is measured: a section of the page."""

from __future__ import annotations

METHOD = """\
All measurements run in one process, in rounds: each of them once, then each of them again. So a slow minute of the
machine affects all of them. A ratio is computed within a round. The tables show the median of the rounds, the minimum
and the maximum. Rowcall runs with its defaults: `durability="full"`, ten jobs at a time.

### On all databases

- **Drain**: processes of `rowcall work` with its defaults, as the README starts it, with no-op handlers. Their logs go
  to a file. The time runs from the first claim, as stored in its row, until another process sees that the last job is
  settled. The start of the processes is not counted. Every job must succeed at its first attempt. Drains that are
  compared take turns, three times in a round; the median counts. Not so PgQueuer, procrastinate, SAQ, the jobs of 5 ms,
  and what slows a drain down.
- **Enqueue**: one process alternates between bare inserts into the table of the bare ceiling and Rowcall.
- **Caller's connection**: one connection of a common library alternates between two kinds of transactions that write
  one job: by a bare INSERT into the table of the bare ceiling, and by `enqueue` with `connection=`. The figure is the
  median transaction, with begin and commit. "Without commit" is the median of 1,000 such statements in one transaction.
- **Large table**: finished jobs, future jobs of high priority, and waiting jobs of the same task and lower priority
  are written by plain SQL. Then 120,000 jobs of a higher priority are enqueued and timed. "Unknown task": the waiting
  jobs have a higher priority but another task, and are not claimed.
- **Pick-up**: the time from just before a job is enqueued until its handler starts in another process. Jobs come 20 to
  60 ms apart; sync and async handlers alternate. **Lateness**: the time from `run_at` until the handler starts.
- **Flows**: all jobs are written before the worker starts, and timed as in a drain; every job counts. Chains of 3 are
  written whole, or each step continues with the next. Fan-in: 1,000 jobs, and one that waits for all of them. Keys:
  1,000 new keys per call.
- **Idle**: CPU time of all threads of the worker process.

### On SQLite

- **Bare ceiling**: one loop that claims and settles in groups of 500, on a table with the columns and indexes that a
  queue needs. It has no worker, no handlers and no notifications. Journal, durability and foreign keys are set as in
  Rowcall (WAL, `synchronous=full`, on). Rowcall also has `auto_vacuum=incremental` and a limit on the WAL.
- **huey**: `SqliteHuey` and its own `Consumer` with one thread; logging and periodic tasks are off. More threads share
  one connection; two and four were not faster. Default: nothing else is set, which means `synchronous=full`. Fastest:
  `fsync=False`, `results=False`, `cache_mb=64`, so a power cut may lose jobs or the file. The time runs from the start
  of the consumer until the last handler is called.
- **Memory and WAL**: one drain of 500,000 jobs, with the resident memory after 50,000, 200,000 and all jobs. The size
  of the WAL file is read every 5 ms. A megabyte is 1,000,000 bytes.
- **Crowd**: one process enqueues and is timed, three more enqueue without pause, and two workers drain.

### On PostgreSQL

- **Server**: a private one for the run, on the same disk and cores as its clients, with PostgreSQL's default
  durability. Each measurement has a new database. `VACUUM ANALYZE` and a checkpoint come before every drain of any
  queue, except where the wear of a table is measured.
- **Bare ceiling**: one loop on one connection that claims (`FOR UPDATE SKIP LOCKED`) and settles in groups of 300, by
  one prepared statement each, in one transaction. For two: the same in two processes on one table.
- **Other queues**: each in separate processes, which connect, wait for each other and begin together. The time runs
  until all handlers were called and another process sees that nothing is left to settle. All run on uvloop and log
  nothing. PgQueuer: as in its own benchmark, on asyncpg, with its durable tables and recommended autovacuum settings,
  in groups of 1,000. procrastinate: 30 jobs at a time on ten connections, finished jobs deleted, no LISTEN. SAQ: 100
  jobs at a time, jobs not kept. The last two get fewer jobs, so that each drain takes seconds.
- **Many jobs through one table**: drains of 40,000 jobs, each by a new worker process, until 2,000,000 are done,
  without a VACUUM by hand. The figures are medians of the first five and of the last five drains. Before each of the
  last five, a new table is drained for comparison.
- **Statements**: the statements that the server logs (`log_statement=all`) for an idle worker, with BEGIN and COMMIT.
- **Producers**: eight processes enqueue one job at a time for three seconds. Idle workers are notified: by a trigger
  for plain SQL, after the commit for `enqueue`. The cost is compared with the trigger switched off: without a worker,
  with an idle worker of another queue, and with a worker that always has a backlog.

### On MariaDB

- **Server**: a private one for the run, with the default durability and memory of MariaDB.
- **Bare loop**: one connection claims and settles as many jobs by Rowcall's own statements, in groups of 500. It has
  no worker, no handlers, no counts, and nothing that may follow an end.
- **Large table**: as on the others, with the indexes there while it is filled.
"""
