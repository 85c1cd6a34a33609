from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.store.statement import Plan, Statement, as_is, execute, fetch


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", busy_timeout=0.1) as jobs:
        queue_of(jobs).database.write(lambda: plan("create table mine (note text)"))
        yield jobs


def plan(sql: str) -> Plan[None]:
    return execute(Statement(sql, (), as_is))


def insert(note: str) -> Plan[None]:
    return plan(f"insert into mine values ('{note}')")


def notes(jobs: Rowcall) -> list[object]:
    found: list[object] = queue_of(jobs).database.read(
        fetch(Statement("select note from mine order by note", (), lambda row: row[0]))
    )
    return found


def test_nothing_is_seen_before_the_commit(jobs: Rowcall) -> None:
    transaction = queue_of(jobs).database.begin()
    transaction.run(insert("a"))
    assert notes(jobs) == []
    transaction.commit()
    assert notes(jobs) == ["a"]


def test_savepoints(jobs: Rowcall) -> None:
    transaction = queue_of(jobs).database.begin()
    transaction.run(insert("a"))
    transaction.run(plan("savepoint one"))
    transaction.run(insert("b"))
    transaction.run(plan("rollback to savepoint one"))
    transaction.run(plan("savepoint one"))
    transaction.run(insert("c"))
    transaction.run(plan("release savepoint one"))
    transaction.commit()
    assert notes(jobs) == ["a", "c"]


def test_a_transaction_that_the_database_rolled_back_is_over(jobs: Rowcall) -> None:
    transaction = queue_of(jobs).database.begin()
    transaction.run(insert("a"))
    transaction.run(plan("rollback"))
    with pytest.raises(StoreUnavailable, match="already rolled the transaction back"):
        transaction.run(insert("b"))
    with pytest.raises(StoreUnavailable, match="Nothing was written"):
        transaction.commit()
    queue_of(jobs).database.write(lambda: insert("c"))  # the lock and the write gate are free
    assert notes(jobs) == ["c"]


def test_a_rollback_frees_the_lock(jobs: Rowcall) -> None:
    transaction = queue_of(jobs).database.begin()
    with pytest.raises(StoreUnavailable, match="is locked by a transaction of this process"):
        queue_of(jobs).database.write(lambda: insert("a"))
    transaction.roll_back()
    queue_of(jobs).database.write(lambda: insert("b"))
    assert notes(jobs) == ["b"]
