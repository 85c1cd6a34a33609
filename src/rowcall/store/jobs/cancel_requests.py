"""A cancel request is never lost: an attempt that does not succeed ends its job as cancelled."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from rowcall.domain.job import Status
from rowcall.domain.outcome import AttemptBudget, CancelRequested, Transition, decide
from rowcall.store.counts.tallies import Tallies
from rowcall.store.dialect import Dialect
from rowcall.store.queries.control import CANCEL_REQUESTS, CancelRequest
from rowcall.store.queries.counts import Tally
from rowcall.store.queries.ends import Settlement
from rowcall.store.statement import Plan


class Applied(msgspec.Struct):
    """The settlements to write, and the ones that became cancellations."""

    settlements: list[Settlement]
    asked: list[CancelRequest] = []

    @property
    def cancelled(self) -> dict[int, Transition]:
        return {one.id: _cancelled(one) for one in self.asked}

    def tallies(self) -> list[Tally]:
        tallies = Tallies()
        for one in self.asked:
            tallies.enter(one.queue, one.type, one.attempt, _cancelled(one), None, None)
        return tallies.rows()


def apply_requests(dialect: Dialect, settlements: Sequence[Settlement], requested: Collection[int]) -> Plan[Applied]:
    """Turn settlements other than success into cancellations where the claim had a cancel request."""
    ends = (Status.CANCELLED, Status.SUCCEEDED)
    concerned = [row.id for row in settlements if row.id in requested and row.status not in ends]
    asked = (yield from dialect.ask(CANCEL_REQUESTS, concerned)) if concerned else []
    if not asked:
        return Applied(list(settlements))
    by_id = {one.id: one for one in asked}
    return Applied([_instead(row, by_id[row.id]) if row.id in by_id else row for row in settlements], asked)


def reason_of(dialect: Dialect, job_id: int) -> Plan[str | None]:
    """Return why a running job is to be cancelled."""
    return next((one.reason for one in (yield from dialect.ask(CANCEL_REQUESTS, [job_id]))), None)


def _instead(row: Settlement, asked: CancelRequest) -> Settlement:
    transition = _cancelled(asked)
    return msgspec.structs.replace(
        row,
        status=transition.status,
        attempt_status=transition.attempt_status,
        delay_ms=None,
        attempt_returned=0,
        attempt_recorded=0,
        result=None,
        error_code=transition.error_code,
        error_detail=transition.error_detail,
        lost=0,
        final=1,
        unfit=None,
        run_at_ms=None,
    )


def _cancelled(asked: CancelRequest) -> Transition:
    return decide(AttemptBudget(asked.attempt, asked.attempt), CancelRequested(asked.reason))
