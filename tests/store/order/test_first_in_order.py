"""Which job of a value comes first, and what it costs to find out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.order.first_in_order import heads, make_ready, orders_of
from tests.store.databases import migrated as sqlite_file
from tests.store.databases import query_plan
from tests.store.postgres.databases import migrated as postgres_database
from tests.store.test_statements import on_postgres, on_sqlite

FIRST, OTHER = '["post",1]', '["post",2]'


def test_the_first_jobs_are_found_and_made_ready(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.task(ordered_by="account")
        def post(account: int) -> None: ...

        one, two, other = [post.enqueue(account).id for account in (1, 1, 2)]
        queue, dialect = queue_of(jobs), queue_of(jobs).dialect
        jobs.claim("hand", limit=9)
        assert sorted(queue.run(Write(orders_of, dialect, [one, two, other]))) == [FIRST, OTHER]
        assert queue.run(Write(heads, dialect, [f"order:{FIRST}", "order:none"])) == {f"order:{FIRST}": one}
        assert queue.run(Write(make_ready, dialect, {f"order:{FIRST}": 1})) == 0, "the first one is not held"


@pytest.mark.parametrize("name", ["heads", "ready_heads"])
def test_an_index_finds_the_first_job(tmp_path: Path, postgres_url: str, name: str) -> None:
    with sqlite_file(tmp_path / "app.db") as connection:
        steps = query_plan(connection, dict(on_sqlite("rowcall_"))[name])
    assert any("INDEX rowcall_job_ordered (ordered=?)" in step for step in steps)
    with postgres_database(postgres_url) as server:
        server.execute("set enable_seqscan = off")
        server.execute(f"prepare probe as {dict(on_postgres('rowcall_'))[name]}".encode(), prepare=False)
        plan = str(server.execute(b"explain execute probe('[]')", prepare=False).fetchall())
    assert "using rowcall_job_ordered on" in plan
