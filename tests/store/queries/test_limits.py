"""No statement about limits reads a whole table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowcall.store.catalogue import queries_for
from rowcall.store.sqlite.dialect import catalogue
from tests.store.databases import fill, migrated, query_plan

NAMES = sorted(query.name for topic, query in queries_for("sqlite") if topic == "limits")
# a handful of rows, when a worker starts; what runs, when a worker ends and every ten minutes
WHOLE = {"quotas", "slots_of_worker", "stale_keys"}


@pytest.fixture(scope="module", params=["empty", "full, analyzed"])
def plans(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    with migrated(tmp_path_factory.mktemp("plans") / "app.db") as connection:
        if request.param != "empty":
            fill(connection)
            connection.execute("update rowcall_job set held = 'limit:' || (id % 100) where status = 'pending'")
            connection.execute(
                "insert into rowcall_slot (limit_key, job_id, lease) select 'k' || (id % 100), id, 1 from rowcall_job"
            )
            connection.execute("insert into rowcall_start select id, id, id, 'k' || (id % 100) from rowcall_job")
            connection.execute("insert into rowcall_opening select 'k' || id, id from rowcall_job where id < 100")
            connection.execute("analyze")
        texts = catalogue("rowcall_").texts()
        yield {name: query_plan(connection, texts[name]) for name in NAMES}


def test_nothing_is_scanned_in_a_file(plans: dict[str, list[str]]) -> None:
    tables = ("rowcall_", "job", "slot", "start", "opening", "quota")
    for name in set(NAMES) - WHOLE:
        scans = [step for step in plans[name] if step.startswith(tuple(f"SCAN {table}" for table in tables))]
        found = [step for step in scans if "start" not in step.split()[1] or "given" in step]
        assert found == [], (name, plans[name])


def test_a_held_job_is_found_by_its_key_in_turn(plans: dict[str, list[str]]) -> None:
    for name in ("unhold_first", "unhold_some", "first_held"):
        assert any("INDEX rowcall_job_held_by (held=?)" in step for step in plans[name]), plans[name]
        assert not any("TEMP B-TREE FOR ORDER" in step for step in plans[name]), plans[name]
    assert sum("INDEX rowcall_job_held_by (held>?)" in step for step in plans["held_keys"]) == 2
