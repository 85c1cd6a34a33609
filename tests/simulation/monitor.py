"""What must be true after every commit: it is asked of the database itself, by one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.crash.storm import terms
from tests.simulation.app import METERED

_KEYS = ", ".join(f"'{task}'" for task in sorted(terms.ONE_ACTIVE))
_PER_MS = METERED.numbers.per_ms
_OF_BREAKERS = """from rowcall_breaker as breaker join rowcall_slot as slot on slot.limit_key = breaker.limit_key
        join rowcall_claim as claim on claim.job_id = slot.job_id and claim.lease = slot.lease"""
_LIMITS = " ".join(f"when limit_key like '%{name}%' then {most}" for name, most in terms.CONCURRENCY.items())
NEVER_TRUE = {
    "a pending job can never be claimed: it is not ready, not claimed and not held": """
        select id from rowcall_job where status = 'pending' and held is null
        and id not in (select id from rowcall_ready) and id not in (select job_id from rowcall_claim)""",
    "a ready row of a job that is claimed, held, or not pending": """
        select ready.id from rowcall_ready as ready left join rowcall_job as job on job.id = ready.id
        where job.id is null or job.status <> 'pending' or job.held is not null
        or ready.id in (select job_id from rowcall_claim)""",
    "two ready rows of a job": "select id from rowcall_ready group by id having count(*) > 1",
    "a claim of a job that is not pending": """
        select job_id from rowcall_claim as claim left join rowcall_job as job on job.id = claim.job_id
        where job.status is not 'pending'""",
    "a claim with a lease that its job has had": """
        select job_id from rowcall_claim as claim join rowcall_job as job on job.id = claim.job_id
        where claim.lease <= job.lease""",
    "two jobs of an order run at the same time": """
        select max(job_id) from rowcall_claim join rowcall_job on id = job_id where ordered is not null
        group by type, ordered having count(*) > 1""",
    "two jobs of a key that have not ended": f"""
        select max(id) from rowcall_job where key is not null and type in ({_KEYS})
        and status not in ('succeeded', 'failed', 'cancelled') group by type, key having count(*) > 1""",
    "a batch has finished, and one of its jobs has not ended": """
        select min(job.id) from rowcall_batch as batch join rowcall_job as job on job.batch_id = batch.id
        where batch.finished_at is not null and job.status not in ('succeeded', 'failed', 'cancelled')
        group by batch.id""",
    "more slots of a limit than there are": f"""
        select max(job_id) from rowcall_slot group by limit_key having count(*) > case {_LIMITS} end""",
    "a claim under a limit without its slot": """
        select job_id from rowcall_claim as claim join rowcall_job as job on job.id = job_id
        where job.type in ('spot', 'late') and not exists
        (select 1 from rowcall_slot as slot where slot.job_id = claim.job_id and slot.lease = claim.lease)""",
}
NEVER_TRUE_BY_ITS_CLOCK = {
    "a job starts while its breaker is open": f"""
        select claim.job_id {_OF_BREAKERS} where claim.claimed_at > breaker.opened_at
        and claim.claimed_at < breaker.open_until""",
    "two jobs try whether their breaker may close": f"""
        select max(claim.job_id) {_OF_BREAKERS} where claim.claimed_at >= breaker.open_until
        group by breaker.limit_key having count(*) > 1""",
    "more units than a rate allows": f"""
        select max(last.job_id) from rowcall_start as last join rowcall_start as start
        on start.limit_key = last.limit_key and start.at between last.at - {_PER_MS} + 1 and last.at
        where last.units is not null and last.number > 0 and start.number > 0
        group by last.limit_key, last.number having sum(start.units) > {METERED.rate}""",
}
"""Of worlds whose wall clock was not set."""


def _any_of(queries: Mapping[str, str]) -> str:
    return " union all ".join(
        f"select '{what}', id from (select null as id where false union all {sql})" for what, sql in queries.items()
    )


_ALL, _BY_ITS_CLOCK = _any_of(NEVER_TRUE), _any_of(NEVER_TRUE_BY_ITS_CLOCK)
_CHANGES = "select seq, job_id, lease, worker, lost > old_lost from storm_change where seq > ? order by seq"
Ask = Callable[[str, Sequence[object]], Iterable[Sequence[Any]]]


class Monitor:
    def __init__(self) -> None:
        self.checks = 0
        self.recovered: set[tuple[int, int]] = set()
        """The attempts that another worker has recovered, by job and lease."""
        self._seq = 0

    def problems(
        self, ask: Ask, silent_for: Callable[[str], float], lease_seconds: float, *, was_set: bool = False
    ) -> Iterator[str]:
        """Ask the connection that has committed: it has the pages. `silent_for` returns for how many seconds a worker
        was silent; infinity if it is dead.
        """
        self.checks += 1
        for sql in (_ALL,) if was_set else (_ALL, _BY_ITS_CLOCK):
            for what, job_id in ask(sql, ()):
                yield f"{what}: job {job_id}"
        for seq, job_id, lease, worker, is_lost in ask(_CHANGES, (self._seq,)):
            self._seq = seq
            if not is_lost:
                continue
            self.recovered.add((job_id, lease - 1))
            if worker is not None and (seconds := silent_for(worker)) < lease_seconds:
                yield f"a living worker is recovered: job {job_id} of {worker}, silent for {seconds:.2f} s"
