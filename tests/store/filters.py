"""Filters of every kind, alone and with others, and orders."""

from __future__ import annotations

import itertools

from rowcall import Status
from rowcall.store.dialect import Filter, Order, Span

ORDERS = [Order(newest, by_end) for newest, by_end in itertools.product((True, False), (False, True))]
SOME = (Status.FAILED, Status.PENDING, Status.RUNNING)
ALONE = (
    Filter(),
    Filter(tag="tag3"),
    Filter(key="key", type="type1"),
    Filter(chain_id=7),
    Filter(worker="worker1"),
    Filter(error_code="A:B"),
    Filter(error_code="A:*"),
    Filter(created_after_ms=1, created_before_ms=2),
    Filter(finished_after_ms=1, finished_before_ms=2),
    Filter(payload='{"customer": 7}'),
)
_STATUSES = [None, *((status,) for status in Status), SOME]
FILTERS = [
    *ALONE,
    *(
        Filter(statuses=statuses, queue=queue, type=kind, tag=tag)
        for statuses, queue, kind, tag in itertools.product(_STATUSES, (None, "mail"), (None, "type1"), (None, "tag3"))
    ),
    Filter(statuses=SOME, queue="mail", error_code="A:*", worker="worker1"),
]


def span_of(order: Order) -> Span:
    """All places."""
    return Span((1, 0), (2**50, 0)) if order.by_end else Span((0,), (2**62,))
