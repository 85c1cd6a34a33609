"""How each figure was taken, as the page tells it."""

from __future__ import annotations

METHOD = """\
Everything runs in one go, in rounds: one of each, then one of each again, so that a slow minute of the machine meets
all of them. A ratio is taken within a round and then over the rounds; the tables show medians, with the least and the
most. Rowcall runs with its defaults: `durability="full"`, ten jobs at once.

### On both databases

- **Drain**: worker processes of Rowcall, no-op handlers. The clock runs from the first claim, as its row says, until
  another process sees that the last job is settled; the start of the processes is not counted. Every job must have
  succeeded at its first attempt.
- **Enqueue**: bare inserts, into the ceiling's table, and Rowcall take turns within one process.
- **Lent connections**: on one connection that is used as its users do, transactions that each write one job take turns:
  by a bare INSERT into the ceiling's table, and by `enqueue` with `connection=`. The time is that of the median
  transaction, with its begin and commit. Without commit: of the median of 1,000 such statements inside one transaction.
- **Large table**: finished jobs, future jobs of high priority and 200,000 waiting jobs of the same task and lower
  priority, written by plain SQL; the jobs in front of those are enqueued and timed. Unknown task: its jobs have the
  higher priority, and stay where they are.
- **Pick-up**: from just before a job is enqueued until its handler starts in another process, 20 to 60 ms apart, sync
  and async handlers in turn. **Lateness**: from `run_at` until the handler starts.
- **Flows**: all jobs are written before the worker starts, and the clock runs as in a drain; every job counts. Chains
  of 3 are written as such, or the first steps are, and each goes on with the next. Fan-in: 1,000 jobs, and one that
  waits for all of them. Limit: the jobs of 10,000 keys in turn, one of each at a time. Keys: 1,000 new ones a call.
- **Before and after**: this code and the commit before chains, keys, limits and schedules, a plain drain each.
- **Idle**: processor time of all threads of the worker's process.

### On SQLite

- **Bare ceiling**: one loop that claims and settles in groups of 500 on a table with the columns and indexes a queue
  needs, and does nothing else. No worker, no handlers, no wake-up. Journal, durability and foreign keys are set as
  Rowcall sets them (WAL, `synchronous=full`, on); Rowcall also has `auto_vacuum=incremental` and a limit on the WAL.
- **huey**: `SqliteHuey` and its own `Consumer` with one thread (more threads share one connection; a short
  trial with two and four was no quicker), logging and periodic tasks off. Default: nothing else is set,
  which is `synchronous=full`. Fastest: `fsync=False`, `results=False`, `cache_mb=64`; a power cut may then cost jobs
  or the file. The clock runs from the start of the consumer until the last handler is called.
- **Memory and WAL**: one drain of 500,000 jobs; resident memory after 50,000, 200,000 and all; the size of the WAL file
  looked at every 5 ms. A megabyte is 1,000,000 bytes.
- **Crowd**: one process enqueues and is timed, three more enqueue without pause, two workers drain.

### On PostgreSQL

- **Server**: a private one for the run, on the same disk and cores as its clients, as durable as PostgreSQL is by
  itself. Each measurement has a new database. `VACUUM ANALYZE` runs before every drain, whoever drains, except where
  the wear of a table is what is measured.
- **Bare ceiling**: one loop on one connection that claims (`FOR UPDATE SKIP LOCKED`) and settles in groups of 300, by
  one prepared statement each, in one transaction; for two, the same in two processes on one table.
- **Others**: each in processes of its own, which connect, wait for each other and begin together. The clock runs until
  all handlers were called and a further process sees that nothing is left to settle. All run on uvloop and log nothing.
  PgQueuer: as its own benchmark runs it, on asyncpg, with its durable tables and the autovacuum settings it
  recommends, groups of 1,000. procrastinate: 30 jobs at once on ten connections, finished jobs deleted, no LISTEN.
  SAQ: 100 jobs at once, jobs not kept. The last two have fewer jobs to do, so that all take seconds.
- **Many jobs through one table**: drains of 40,000, one after the other, each by a new worker process, until 2,000,000
  are done, and nobody calls VACUUM. Shown are medians of the first three and of the last three drains; before each of
  the last three, a new table is drained for comparison.
- **Statements**: those that the server itself logs (`log_statement=all`) for an idle worker, BEGIN and COMMIT included.
- **Producers**: eight processes enqueue a job at a time for three seconds. Rowcall tells idle workers of new jobs: by
  a trigger for plain SQL, after the commit for `enqueue`. What that costs is seen beside the trigger switched off:
  with no worker at all; with an idle worker of another queue, which is told of every job in vain; and with a
  worker that is busy with a backlog all the time.
"""
