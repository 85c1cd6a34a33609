"""Fair turns, and jobs in order.

The contract
------------
* **Turns.** A trigger sets the turn of a fair job when it becomes ready. Claims record the turn that they have reached.
* **First jobs.** Of the jobs with one value in `ordered`, only the first that has not ended may run: the one with the
  lowest id. A claimer locks the value (`LOCK_LIMITS`) and that job's row, which so cannot end before the commit.
* **Held.** The others are held. Each transaction that ends the first job makes the next one ready. What that misses,
  because another transaction has locked the row, the check of held jobs finds.
"""

from __future__ import annotations

from rowcall.store.queries.limits import any_changed
from rowcall.store.statement import Change, Ids, Json, Query, json_from_row, text_from_row

# The turns of the last claimed jobs in fair order: queue, scope, rank and turn. Rows that another claim has locked keep
# their turns.
SERVE = Query("serve", (Json,))

# the first job of each value; the second statement locks these rows, unless another transaction has changed them
HEADS = Query("heads", (Json,), json_from_row(list[tuple[str, int]]))
STEADY_HEADS = Query("steady_heads", (Ids,), json_from_row(list[int]), only=("postgres", "mysql"))
READY_HEADS = Change("ready_heads", (Json,), notifies=any_changed)
_ORDERS_OF = "select distinct <text_of:ordered> from <job> where id <in_ids:1> and ordered is not null"
ORDERS_OF = Query("orders_of", (Ids,), text_from_row, text=_ORDERS_OF)
# ids of jobs that were enqueued without the declaration of their task, their values, and whether a failed one blocks
ADOPT = Query("adopt", (Json,))
