"""How each figure was taken, as the page tells it."""

from __future__ import annotations

METHOD = """\
Everything runs in one go, in rounds: one of each, then one of each again, so that a slow minute of the machine meets
all of them. A ratio is taken within a round and then over the rounds; the tables show medians, with the least and the
most. Rowcall runs with its defaults: `durability="full"`, ten jobs at once.

- **Bare ceiling**: one loop that claims and settles in groups of 500 on a table with the columns and indexes a queue
  needs, and does nothing else. No worker, no handlers, no wake-up. Journal, durability and foreign keys are set as
  Rowcall sets them (WAL, `synchronous=full`, on); Rowcall also has `auto_vacuum=incremental` and a limit on the WAL.
- **Drain**: one worker process, no-op handlers. The clock runs from the first claim, as its row says, until another
  process sees that the last job is settled; the start of the process is not counted. Every job must have succeeded at
  its first attempt. For huey it runs from the start of the consumer until the last handler is called.
- **huey**: `SqliteHuey` and its own `Consumer` with one thread (more threads share one connection; a short
  trial with two and four was no quicker), logging and periodic tasks off. Default: nothing else is set,
  which is `synchronous=full`. Fastest: `fsync=False`, `results=False`, `cache_mb=64`; a power cut may then cost jobs
  or the file.
- **Enqueue**: bare inserts, into the ceiling's table, and Rowcall take turns within one process.
- **Large table**: finished jobs, future jobs of high priority and 200,000 waiting jobs of the same task and lower
  priority, written by plain SQL; the jobs in front of those are enqueued and timed. Unknown task: its jobs have the
  higher priority, and stay where they are.
- **Pick-up**: from just before `enqueue` is called until the handler starts in another process, 20 to 60 ms apart, sync
  and async handlers in turn. **Lateness**: from `run_at` until the handler starts.
- **Idle**: processor time of all threads of the worker's process.
- **Memory and WAL**: one drain of 500,000 jobs; resident memory after 50,000, 200,000 and all; the size of the WAL file
  looked at every 5 ms. A megabyte is 1,000,000 bytes.
- **Crowd**: one process enqueues and is timed, three more enqueue without pause, two workers drain.
"""
