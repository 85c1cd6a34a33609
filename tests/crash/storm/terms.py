"""The options that the tasks of a storm are declared with, for the declarations and for the checks."""

from __future__ import annotations

from typing import NamedTuple

from rowcall import Breaker, Limit

SPOTS = Limit("spots", concurrency=2, by="spot")
CELLS = Limit("cells", concurrency=2)
LATE = Limit("late", concurrency=1)
PACED = Limit("paced", rate=4, per=0.5, by="lane")
WEIGHED = Limit("weighed", rate=10, per=0.5, by="lane", units="size")
MOST_UNITS = 6
GUARDED = Limit("guarded", concurrency=3, breaker=Breaker(failures=0.5, of=6, pause=0.2))
LIMITS = {limit.name: limit for limit in (SPOTS, CELLS, LATE, PACED, WEIGHED, GUARDED)}
CONCURRENCY = {name: limit.concurrency for name, limit in LIMITS.items() if limit.concurrency is not None}

MAX_ATTEMPTS = 6
BLOB_THRESHOLD = 2_000
KEY_WINDOW_SECONDS = 1.5

NEVER = "never"  # enqueued only in transactions that are rolled back
EFFECTS = frozenset({"effect", "effect_async"})
FOLLOW_UP = "followed"
FOLLOWED = {"once": {"failed", "cancelled"}, "large": {"succeeded"}, "effect": {"succeeded"}}
"""The ends that this task follows, by task."""
BATCH_OVER = "batch_over"  # follows the end of each batch
ONE_ACTIVE = frozenset({"keyed", "keyed_or_raise"})
ONE_WAITING = frozenset({"keyed_or_replace"})
ONE_KEPT = frozenset({"keyed_for_good"})
ONE_IN_WINDOW = frozenset({"keyed_for_a_while"})


class Ticking(NamedTuple):
    task: str
    every_ms: int
    catch_up: str


SCHEDULES = (Ticking("tick_all", 400, "all"), Ticking("tick_one", 300, "one"), Ticking("tick_skip", 500, "skip"))
SKIPPED_AFTER_MS = 60_000
