"""Foreign keys and rules of the tables: history never outlives its job, and wrong rows are refused by name."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from rowcall import Rowcall
from tests.store.postgres.databases import fresh_database, migrated


@pytest.fixture(scope="module")
def database(postgres_server_url: str) -> Iterator[psycopg.Connection]:
    """A connection for tests that write nothing."""
    with fresh_database(postgres_server_url) as url, migrated(url) as connection:
        yield connection


@pytest.mark.parametrize(
    "statement",
    [
        b"insert into rowcall_attempt (job_id, attempt, status, claimed_at) values (99, 1, 'failed', now())",
        b"insert into rowcall_event (job_id, at, event) values (99, now(), 'X')",
        b"insert into rowcall_job_tag (tag, job_id) values ('a', 99)",
    ],
)
def test_history_without_a_job_is_refused(database: psycopg.Connection, statement: bytes) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        database.execute(statement)


def test_deleting_a_job_leaves_no_orphans(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.enqueue("task", tags=["a", "b"])
        kept = jobs.enqueue("task", tags=["a"])
        for _ in range(2):
            claimed = jobs.dequeue("me")
            assert claimed is not None
            jobs.release(claimed)
        jobs.cancel(1, "no longer needed")
        jobs.delete(1)
        assert jobs.list(tag="a").jobs == [kept]
    with psycopg.connect(postgres_url) as plain:
        assert plain.execute("select count(*) from rowcall_attempt").fetchone() == (0,)
        assert plain.execute("select count(*) from rowcall_event").fetchone() == (0,)
        assert plain.execute("select tag, job_id from rowcall_job_tag").fetchall() == [("a", kept.id)]


def test_an_id_is_never_given_again(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        first = jobs.enqueue("task")
        jobs.delete(first.id)
        assert jobs.enqueue("task").id == first.id + 1


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("run_at", "infinity", "moment_is_a_time"),
        ("run_at", "-infinity", "moment_is_a_time"),
        ("run_at", "10000-01-01 00:00+00", "moment_is_a_time"),
        ("run_at", "4713-01-01 00:00+00 BC", "moment_is_a_time"),
        ("expires_at", "infinity", "moment_is_a_time"),
        ("created_at", "infinity", "moment_is_a_time"),
        ("status", "done", "status_is_known"),
        ("status", "PENDING", "status_is_known"),
        ("status", "", "status_is_known"),
        ("type", "", "name_has_1_to_200_characters"),
        ("type", "x" * 201, "name_has_1_to_200_characters"),
        ("queue", "", "name_has_1_to_200_characters"),
        ("queue", "ä" * 201, "name_has_1_to_200_characters"),
        ("attempt", -1, "count_is_a_whole_number"),
        ("attempt", 2**31 - 1, "count_is_a_whole_number"),
        ("lost", -1, "count_is_a_whole_number"),
        ("max_attempts", 0, "limit_is_a_whole_number_above_0"),
        ("max_attempts", 2**31 - 1, "limit_is_a_whole_number_above_0"),
        ("lease", -1, "lease_is_a_whole_number"),
        ("lease", 2**63 - 1, "lease_is_a_whole_number"),
        ("timeout", 0, "seconds_is_a_duration"),
        ("timeout", -1, "seconds_is_a_duration"),
        ("timeout", "Infinity", "seconds_is_a_duration"),
        ("timeout", "NaN", "seconds_is_a_duration"),
        ("tags", '"urgent"', "tags_is_a_json_array"),
        ("tags", '{"a": 1}', "tags_is_a_json_array"),
        ("tags", "null", "tags_is_a_json_array"),
    ],
)
def test_a_wrong_value_in_plain_sql_is_refused_by_a_rule_with_a_clear_name(
    database: psycopg.Connection, column: str, value: object, rule: str
) -> None:
    row = {"type": "task", column: value}
    marks = ", ".join(["%s"] * len(row))
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        database.execute(f"insert into rowcall_job ({', '.join(row)}) values ({marks})".encode(), list(row.values()))
    assert caught.value.diag.constraint_name == f"rowcall_{rule}"
    assert database.execute("select count(*) from rowcall_job").fetchone() == (0,)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("run_at", "soon"),
        ("run_at", "294277-01-01"),
        ("priority", 2**31),
        ("priority", "high"),
        ("timeout", "soon"),
        ("tags", "urgent"),
        ("payload", "{"),
        ("payload", '"\\u0000"'),
        ("type", None),
        ("queue", None),
        ("payload", None),
        ("id", 2**63),
    ],
)
def test_what_is_of_no_such_type_is_refused(database: psycopg.Connection, column: str, value: object) -> None:
    columns = {"type": sql.Literal("task"), column: sql.Literal(value)}
    with pytest.raises((psycopg.DataError, psycopg.IntegrityError, psycopg.errors.DatatypeMismatch)):
        database.execute(
            sql.SQL("insert into rowcall_job ({}) values ({})").format(
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join(columns.values()),
            )
        )
    assert database.execute("select count(*) from rowcall_job").fetchone() == (0,)
