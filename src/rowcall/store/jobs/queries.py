"""Jobs and workers: enqueue, claim, settle, recover and inspect."""

from __future__ import annotations

from rowcall.store.statement import Ids, Query, number_from_row

_FILE = ("sqlite",)

# the status that is kept with the tags of a job; PostgreSQL has a trigger for that
ANY_TAG = Query("any_tag", (), number_from_row, only=_FILE)
RETAG = Query("retag", (Ids,), only=_FILE)
