"""Statements of a claim and a settle about limits use indexes: on empty tables and on full ones, analyzed or not, with
a plan for these values or for any.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.limits import (
    BREAKERS_OF,
    DROP_OVER_UNITS,
    DROP_STALE,
    DROP_STARTS,
    DUE_OPENINGS,
    FIRST_HELD,
    HELD_KEYS,
    HOLD,
    HOLDS_OF,
    KEY_STATES,
    LAST_OUTCOMES,
    LOWER_UNITS,
    RECENT_STARTS,
    RECENT_UNITS,
    SLOTS_OF_JOBS,
    STEADY_SLOTS,
    TRIM_OUTCOMES,
)
from rowcall.store.statement import Statement
from tests.store.postgres.databases import PREFIX, fresh_database, migrated
from tests.store.postgres.explaining import Explainer, Mode, accesses, statements_of

DIALECT = PostgresDialect(PREFIX)
KEYS = [f'["each",{number}]' for number in range(200)]
IDS = list(range(1, 201))

CASES: dict[str, Statement[object]] = {
    "key_states": statements_of(DIALECT.ask(KEY_STATES, [(key, "each") for key in KEYS]))[0],
    "steady_slots": statements_of(DIALECT.ask(STEADY_SLOTS, KEYS, IDS))[0],
    "free_slots": statements_of(DIALECT.free_slots([(job_id, 1) for job_id in IDS]))[0],
    "holds_of": statements_of(DIALECT.ask(HOLDS_OF, KEYS))[0],
    "slots_of_jobs": statements_of(DIALECT.ask(SLOTS_OF_JOBS, IDS))[0],
    "breakers_of": statements_of(DIALECT.ask(BREAKERS_OF, KEYS))[0],
    "last_outcomes": statements_of(DIALECT.ask(LAST_OUTCOMES, KEYS[0], 20))[0],
    "trim_outcomes": statements_of(DIALECT.ask(TRIM_OUTCOMES, KEYS[0], 20))[0],
    "hold": statements_of(DIALECT.change(HOLD, dict(zip(map(str, IDS), KEYS, strict=True))))[0],
    "unhold": statements_of(DIALECT.unhold(dict.fromkeys(KEYS, 1)))[0],
    "held_keys": statements_of(DIALECT.ask(HELD_KEYS, f"limit:{KEYS[5]}", 500))[0],
    "first_held": statements_of(DIALECT.ask(FIRST_HELD, [f"limit:{key}" for key in KEYS]))[0],
    "ready_ahead": statements_of(DIALECT.ready_ahead("default", ["a", "b"], 250))[0],
    "recent_units": statements_of(DIALECT.ask(RECENT_UNITS, KEYS))[0],
    "drop_over_units": statements_of(DIALECT.ask(DROP_OVER_UNITS, KEYS))[0],
    "lower_units": statements_of(DIALECT.ask(LOWER_UNITS, KEYS[0], 1, 1, 1))[0],
    "recent_starts": statements_of(DIALECT.ask(RECENT_STARTS, [(key, 100, 5) for key in KEYS]))[0],
    "drop_starts": statements_of(DIALECT.ask(DROP_STARTS, [(key, 7) for key in KEYS]))[0],
    "due_openings": statements_of(DIALECT.ask(DUE_OPENINGS, 200))[0],
    "drop_stale": statements_of(DIALECT.change(DROP_STALE, KEYS))[0],
}
NAMES = ("job", "claim", "slot", "start", "opening", "limit_hold", "breaker", "outcome")
TABLES = [f"rowcall_{name}" for name in NAMES]
INDEXED = ("Index Scan", "Index Only Scan", "Tid Scan")


@pytest.fixture(scope="module", params=["new", "empty, analyzed", "few, analyzed", "full", "full, analyzed"])
def explainer(request: pytest.FixtureRequest, postgres_server_url: str) -> Iterator[Explainer]:
    with fresh_database(postgres_server_url) as url:
        with migrated(url) as connection:
            if "few" in request.param:
                connection.execute("insert into rowcall_job (type) select 'charge' from generate_series(1, 300)")
            if "full" in request.param:
                connection.execute("""
                    insert into rowcall_job (type, status, held)
                    select 'charge', case when n % 3 = 2 then 'succeeded' else 'pending' end,
                           case when n % 3 = 1 then 'limit:["each",' || n % 10000 || ']' end
                    from generate_series(1, 15000) as n""")
                connection.execute("""
                    with claimed as (delete from rowcall_ready returning id)
                    insert into rowcall_claim (job_id, lease, holder, worker, attempt, claimed_at)
                    select id, 1, 1, 'worker1', 1, now() from claimed""")
                connection.execute("""
                    insert into rowcall_slot (limit_key, job_id, lease)
                    select '["each",' || job_id % 10000 || ']', job_id, 1 from rowcall_claim""")
                connection.execute("""
                    insert into rowcall_start (limit_key, number, at, until)
                    select '["each",' || n % 1000 || ']', n / 1000, now(), now() from generate_series(1, 15000) as n""")
                connection.execute("""
                    insert into rowcall_limit_hold (limit_key, held_at, until, job_id)
                    select '["each",' || n || ']', now(), now() + interval '1 hour', n
                    from generate_series(1, 10000) as n""")
                connection.execute("""
                    insert into rowcall_breaker (limit_key, opened_at, open_until, failed, outcomes)
                    select '["each",' || n || ']', now(), now(), 1, 1 from generate_series(1, 10000) as n""")
                connection.execute("""
                    insert into rowcall_outcome (limit_key, at, failed)
                    select '["each",' || n % 1000 || ']', now(), 1 from generate_series(1, 15000) as n""")
                connection.execute("""
                    insert into rowcall_opening (limit_key, opens_at)
                    select '["each",' || n || ']', now() from generate_series(1, 10000) as n""")
            if "analyzed" in request.param:
                connection.execute("analyze")
        explainer = Explainer(url)
        yield explainer
        explainer.close()


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_no_table_is_scanned(explainer: Explainer, mode: Mode) -> None:
    for name, statement in CASES.items():
        plan = explainer.explain(statement, mode, writes=True)
        found = {table: accesses(plan, table) for table in TABLES}
        assert any(found.values()), (name, plan)
        scans = [access for reads in found.values() for access in reads if access.kind not in INDEXED]
        assert scans == [], (name, plan)
        # its rows are not in the order of what holds them: all of them would be read for each key
        assert "rowcall_job_held" not in {access.index_name for reads in found.values() for access in reads}, name
