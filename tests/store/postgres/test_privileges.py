"""That they are enough is shown by `tests/conformance/test_postgres_user.py`."""

from __future__ import annotations

import psycopg

from rowcall.store.postgres.privileges import NEEDED, grants

OBJECTS = r"""
select relname from pg_class
where relkind in ('r', 'v') and relname like 'rowcall\_%' and relnamespace = 'public'::regnamespace
"""


def test_every_table_and_view_of_a_real_database_is_among_them(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        found = {name for (name,) in connection.execute(OBJECTS)}
    assert {f"rowcall_{one.name}" for one in NEEDED if one.kind != "sequence"} == found


def test_the_versions_of_the_tables_can_only_be_read() -> None:
    written, read, numbered = grants("ann", "q_")
    assert "q_job, " in written
    assert "q_migration" not in written
    assert read.endswith("q_migration TO ann")
    assert numbered == "GRANT USAGE ON SEQUENCE q_job_id_seq TO ann"
