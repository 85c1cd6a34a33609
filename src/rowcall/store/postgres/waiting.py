"""Waiting for the end of jobs on a server: whoever ends one tells those who wrote down that they wait for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowcall.store import rows
from rowcall.store.dialect import Ends
from rowcall.store.postgres.rows import array
from rowcall.store.postgres.waiting_sql import WaitingSql
from rowcall.store.postgres.words import channel_of_ends
from rowcall.store.speech import plain
from rowcall.store.statement import Plan, Statement, execute, fetch


class PostgresWaiting:
    _prefix: str
    _waiting: WaitingSql

    @property
    def channel_of_ends(self) -> str:
        return channel_of_ends(self._prefix)

    def wait_for(self, waiter: str, job_ids: Sequence[int], now_ms: int | None) -> Plan[None]:
        return execute(plain(self._waiting.wait_for, now_ms, waiter, array(sorted(job_ids))))

    def wait_no_more(self, waiter: str, job_ids: Sequence[int]) -> Plan[None]:
        return execute(plain(self._waiting.wait_no_more, waiter, array(sorted(job_ids))))

    def forget_waiters(self, now_ms: int | None) -> Plan[int]:
        return len((yield from fetch(plain(self._waiting.forget_waiters, now_ms))))

    def tell_waiters(self, job_ids: Collection[int] | None) -> Plan[None]:
        if job_ids is None:
            return execute(plain(self._waiting.tell_of_all_ends))
        return execute(plain(self._waiting.tell_of_ends, array(sorted(job_ids))))

    def awaited_ends(self, job_ids: Sequence[int]) -> Plan[Ends]:
        found = yield from fetch(Statement(self._waiting.awaited_ends, (array(sorted(job_ids)),), rows.end_from_row))
        return Ends({job_id for job_id, over in found if over}, {job_id for job_id, over in found if not over})
