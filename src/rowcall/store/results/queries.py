"""Waiting for the end of jobs. On a server, waiters register, and a transaction that ends a job notifies them.

Beside a SQLite file nothing is registered: its commits can be seen.
"""

from __future__ import annotations

from typing import cast

from rowcall.store.statement import Ids, Now, Query, Row, Text

_SERVER = ("postgres",)


def end_from_row(row: Row) -> tuple[int, bool]:
    job_id, has_ended = cast("tuple[int, int]", row)
    return job_id, bool(has_ended)


# jobs that have finished or are gone; and, with false, jobs that an open transaction may be about to finish without
# having seen the waiter
ENDS = Query("ends", (Ids,), end_from_row)
REGISTER_WAITER = Query("register_waiter", (Now, Text, Ids), only=_SERVER)  # for one minute
REMOVE_WAITER = Query("remove_waiter", (Text, Ids), only=_SERVER)
PRUNE_WAITERS = Query("prune_waiters", (Now,), only=_SERVER)
# delivered when the transaction commits
NOTIFY_WAITERS = Query("notify_waiters", (Ids,), only=_SERVER)
NOTIFY_WAITERS_OF_ENDED = Query("notify_waiters_of_ended", only=_SERVER)
