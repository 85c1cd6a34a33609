"""What the triggers of a move are on, and what they say."""

from __future__ import annotations

from rowcall.domain.errors import MOVED
from rowcall.store.moves.tables import MOVED as TABLES_MOVED
from rowcall.store.moves.tables import OWNED

WRITES_OF_MOVE = "writes_of_move"
"""A setting that only a transaction of the move sees: it is added at its beginning, and deleted at its end."""
CHANGES = ("insert", "update", "delete")
WATCHED = tuple((table, TABLES_MOVED[table].of_job, change) for table in OWNED for change in CHANGES)
GUARDED = (*(("job", change) for change in CHANGES), ("claim", "insert"), ("worker", "insert"), ("schedule", "insert"))
"""What a queue that has moved refuses, and also the one that is being filled. Others may be read and pruned."""
MESSAGE = f"rowcall: {MOVED}"
