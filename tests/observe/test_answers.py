"""Each answer equals what a slow count over all rows says, after random histories."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rowcall.testing.postgres_database import create_database, database_of, drop_database
from tests.observe.machine import HistoryMachine
from tests.observe.plain_sql import PlainDatabase, PlainPostgres, PlainSqlite

HISTORIES = os.environ.get("ROWCALL_TEST_HISTORIES")  # another number, at random, and a failure is made short

# derandomized and without a database of examples: the same histories each time, so that nothing fails only now and then
SETTINGS = settings(
    max_examples=int(HISTORIES or 1),
    stateful_step_count=40,
    derandomize=HISTORIES is None,
    database=None,
    deadline=None,
    phases=[Phase.generate] if HISTORIES is None else [Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> type[HistoryMachine]:
    numbers = itertools.count()
    databases: list[str] = []

    class Machine(HistoryMachine):
        def open_database(self) -> PlainDatabase:
            if request.param == "sqlite":
                return PlainSqlite(f"sqlite:///{tmp_path}/history-{next(numbers)}.db")
            databases.append(create_database(request.getfixturevalue("postgres_server_url")))
            return PlainPostgres(databases[-1])

        def teardown(self) -> None:
            try:
                if hasattr(self, "jobs"):
                    self.check()
            finally:
                super().teardown()
                while databases:
                    url = databases.pop()
                    drop_database(request.getfixturevalue("postgres_server_url"), database_of(url))

    return Machine


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_answer_is_what_a_count_of_all_rows_says(machine: type[HistoryMachine]) -> None:
    run_state_machine_as_test(machine, settings=SETTINGS)
