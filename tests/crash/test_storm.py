"""Everything is switched on, and everything goes wrong at once. Records outside of the queue show whether it held.

The seed of a storm is printed with it. `ROWCALL_TEST_STORM_SEED=7` begins with that one, `ROWCALL_TEST_STORMS=20` runs
as many, one seed after another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall.testing.mysql import FAST_SETTINGS, MysqlServer
from rowcall.testing.postgres import PostgresServer
from tests.crash.storm.faults import MysqlTarget, PostgresTarget, SqliteTarget
from tests.crash.storm.storm import Storm
from tests.mysql_server import ALL, require_mysql

SEED = int(os.environ.get("ROWCALL_TEST_STORM_SEED", "1"))
STORMS = int(os.environ.get("ROWCALL_TEST_STORMS", "1"))
FAULTS = int(os.environ.get("ROWCALL_TEST_STORM_FAULTS", "14"))
MOST_SHOWN = 10

pytestmark = [
    pytest.mark.crash,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("seed", range(SEED, SEED + STORMS)),
]


@pytest.fixture
def postgres_target(private_postgres: PostgresServer) -> Iterator[PostgresTarget]:
    target = PostgresTarget(private_postgres)
    yield target
    target.close()


@pytest.fixture
def mysql_target() -> Iterator[MysqlTarget]:
    """On a separate server, which it crashes. Triggers that insert would deadlock without the setting."""
    require_mysql()
    settings = {**FAST_SETTINGS, "innodb_autoinc_lock_mode": "2"}
    with MysqlServer(in_memory=True, settings=settings) as server, closing(MysqlTarget(server)) as target:
        yield target


def test_on_sqlite(tmp_path: Path, seed: int) -> None:
    run(Storm(SqliteTarget(tmp_path), tmp_path, seed))


def test_on_postgresql(postgres_target: PostgresTarget, tmp_path: Path, seed: int) -> None:
    run(Storm(postgres_target, tmp_path, seed))


if ALL:

    def test_on_mysql(mysql_target: MysqlTarget, tmp_path: Path, seed: int) -> None:
        run(Storm(mysql_target, tmp_path, seed))


def run(storm: Storm) -> None:
    outcome = storm.run(FAULTS)
    print(outcome.summary)
    shown = "\n\n".join(outcome.problems[:MOST_SHOWN])
    assert not outcome.problems, f"{len(outcome.problems)} problems:\n\n{shown}"
