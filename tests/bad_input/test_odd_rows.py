"""Whatever plain SQL writes into any column of any table: good jobs run, and every call answers.

`ROWCALL_TEST_ODD_ROWS=20` writes every value into every column, not one of five, and tries as many random rows.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowcall import Rowcall
from rowcall.cli.main import main
from tests.bad_input.odd_rows import ONLY_ON_A_SERVER, ROWS, Shell, live_with, nested, postgres_shell, sqlite_shell

THOROUGH = int(os.environ.get("ROWCALL_TEST_ODD_ROWS", "0"))
ONE_OF = 1 if THOROUGH else 5
TABLES_OF_A_FILE = [table for table in ROWS if table not in ONLY_ON_A_SERVER]
GROUPS = {"job": ["job"], "claim": ["claim"], "all others": [table for table in ROWS if table not in ("job", "claim")]}


def write_all(shell: Shell, tables: list[str]) -> None:
    shell.insert_ended_jobs()
    for table in tables:
        for index, column in enumerate(shell.columns_of(table)):
            for value in shell.odd_values(column)[index % ONE_OF :: ONE_OF]:
                shell.insert_odd(table, column, value)


@pytest.mark.parametrize("group", GROUPS)
def test_odd_rows_in_a_file(tmp_path: Path, group: str) -> None:
    with sqlite_shell(tmp_path / "app.db") as shell:
        write_all(shell, [table for table in GROUPS[group] if table in TABLES_OF_A_FILE])
        live_with(shell)


@pytest.mark.parametrize("group", GROUPS)
def test_odd_rows_on_a_server(postgres_server_url: str, group: str) -> None:
    with postgres_shell(postgres_server_url) as shell:
        write_all(shell, GROUPS[group])
        live_with(shell)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=10),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    json_values.map(str),
    st.integers(1, 1100).map(nested),
)


@settings(max_examples=THOROUGH or 3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(TABLES_OF_A_FILE), st.integers(0, 40), values), min_size=1, max_size=20))
def test_random_rows_in_a_file(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, object]]) -> None:
    with sqlite_shell(tmp_path_factory.mktemp("odd") / "app.db") as shell:
        shell.insert_ended_jobs()
        for table, index, value in rows:
            columns = shell.columns_of(table)
            column = columns[index % len(columns)]
            if column != "every_ms":
                shell.insert_odd(table, column, value)
        live_with(shell, commands=False)


# what the reads show of a row that they cannot read

BROKEN_TAGS = '["\\ud800"]'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[Rowcall]:
    with Rowcall(path) as jobs:

        @jobs.task
        def note(number: int = 1) -> int:
            return number

        for number in range(5):
            note.enqueue(number)
        yield jobs


def insert(path: Path, column: str, value: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute(f"insert into rowcall_job (type, status, {column}) values ('note', 'pending', ?)", [value])


def test_tags_that_cannot_be_read_are_shown_as_one_text(jobs: Rowcall, path: Path) -> None:
    insert(path, "tags", BROKEN_TAGS)
    assert jobs.get(6).tags == (BROKEN_TAGS,)
    assert [job.tags for job in jobs.list().jobs] == [(BROKEN_TAGS,), (), (), (), (), ()]
    outcome = CliRunner().invoke(main, ["show", "6", "--url", f"sqlite:///{path}"])
    assert outcome.exit_code == 0
    assert "ud800" in outcome.output


def test_a_claim_hands_over_jobs_next_to_one_with_tags_that_cannot_be_read(jobs: Rowcall, path: Path) -> None:
    insert(path, "tags", BROKEN_TAGS)
    claimed = jobs.claim("me", limit=10)
    assert [job.id for job in claimed] == [1, 2, 3, 4, 5, 6]
    assert len(jobs.stuck()) == 6
    assert jobs.cancel(type="note", status="running") == 6
    for job in claimed:
        jobs.release(job)
    assert {job.status for job in jobs.list().jobs} == {"cancelled"}


def test_a_claim_that_cannot_be_handed_over_is_not_committed(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    def tags_of_third(text: str | None) -> tuple[str, ...]:
        if next(calls) == 3:
            raise OverflowError("no such value")
        return ()

    calls = itertools.count(1)
    monkeypatch.setattr("rowcall.operations.by_hand.tags_from_row", tags_of_third)
    assert [job.id for job in jobs.claim("me", limit=10)] == [1, 2, 4, 5]
    monkeypatch.undo()
    failed = jobs.get(3)
    assert (failed.status, failed.error_code) == ("failed", "INVALID_INPUT:UNREADABLE_ROW")
    assert failed.error_detail == "the row cannot be read: OverflowError: no such value"


@pytest.mark.parametrize("depth", [150, 250, 600, 900, 980, 5000])
@pytest.mark.parametrize("column", ["payload", "result"])
def test_what_is_nested_deeply_is_shown_whole_or_as_text(jobs: Rowcall, path: Path, column: str, depth: int) -> None:
    text = f'{{"number": {nested(depth)}}}'
    insert(path, column, text)
    shown = getattr(jobs.get(6), column)
    assert (shown == {"__raw__": text}) is (depth > 199)
    for command in ("show 6", "show 6 --json", "jobs", "jobs --json"):
        outcome = CliRunner().invoke(main, [*command.split(), "--url", f"sqlite:///{path}"])
        assert outcome.exit_code == 0, outcome.output


@pytest.mark.parametrize(
    ("table", "columns", "values"), [("event", "job_id, at, event", "1, 1, 'X'"), ("change", "jobs", "''")]
)
def test_an_id_that_leaves_none_to_come_is_refused(
    jobs: Rowcall, path: Path, table: str, columns: str, values: str
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        for number in (2**62, 2**62 + 1):  # the second follows the first
            shell.execute(f"insert into rowcall_{table} (id, {columns}) values ({number}, {values})")
        for number in (2**62 + 2_000_000, 2**63 - 1):
            with pytest.raises(sqlite3.IntegrityError, match="id_is_a_small_positive_number"):
                shell.execute(f"insert into rowcall_{table} (id, {columns}) values ({number}, {values})")
        with pytest.raises(sqlite3.IntegrityError, match="id_is_a_small_positive_number"):
            shell.execute(f"update rowcall_{table} set id = {2**63 - 1}")
        shell.execute(f"insert into rowcall_{table} ({columns}) values ({values})")
    jobs.cancel(1)
    assert jobs.timeline(1)[-1].event == "CANCELLED"


def test_a_code_with_nul_is_shown(jobs: Rowcall, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        for status in ("failed", "scheduled"):
            row = ["note", status, "A:B\0C"]
            shell.execute("insert into rowcall_job (type, status, error_code, attempt) values (?, ?, ?, 1)", row)
    assert [group.error_code for group in jobs.top_errors()] == ["A:B\0C"]
    assert [group.error_code for group in jobs.failing()] == ["A:B\0C"]


def test_a_row_of_a_counted_table_with_the_highest_id_stops_nothing(jobs: Rowcall, path: Path) -> None:
    @jobs.task(max_attempts=2, retry=lambda attempt, error: 0.0)
    def fail() -> None:
        raise ValueError("no")

    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute(
            "insert into rowcall_attempt (id, job_id, attempt, status, claimed_at)"
            f" values ({2**63 - 1}, 1, 1, 'failed', 1600000000000)"
        )
        shell.execute(
            "insert into rowcall_tally (id, at, queue, type, error_code, attempt, jobs)"
            f" values ({2**63 - 1}, 1600000000000, 'q', 'note', '', 1, 0)"
        )
    job = fail.enqueue()
    jobs.drain()
    assert jobs.get(job.id).attempt == 2
    assert jobs.stats().by_status["succeeded"] == 5
    assert len(jobs.attempts(job.id)) == 2
