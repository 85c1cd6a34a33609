"""The same small app for each queue of `make bench-field`, as the docs of that queue show it.

They run in the environment of their queue, which has no Rowcall, and import only that queue and the standard library.
Each has one task, `work(what, number)`, and these functions, plain or async, for `driver.py`:

- `prepare()` makes the tables,
- `enqueue(what, number)` enqueues a job, in a call and a commit for each,
- `enqueue_many(what, numbers)` is the queue's call for many jobs, where it has one.
"""
