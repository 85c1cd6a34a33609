"""One of Rowcall's own SQLite connections."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.statement import Plan, Statement, as_is, execute


def test_a_plan_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    def half_way() -> Plan[None]:
        yield from execute(Statement("insert into rowcall_job (type) values ('half')", (), as_is))
        raise RuntimeError("half way")

    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.migrate()
        with pytest.raises(RuntimeError, match="half way"):
            queue_of(jobs).run(Write(half_way))
        assert jobs.list().jobs == []
        assert jobs.enqueue("task").id == 1


def test_a_read_never_waits_for_a_writer(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", busy_timeout=0) as jobs:
        job = jobs.enqueue("task")
        with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as somebody_else:
            somebody_else.execute("begin immediate")
            somebody_else.execute("insert into rowcall_job (type) values ('unseen')")
            assert jobs.list().jobs == [job]
            with pytest.raises(StoreUnavailable, match="locked"):
                jobs.enqueue("task")
        assert jobs.enqueue("task").id > 1
