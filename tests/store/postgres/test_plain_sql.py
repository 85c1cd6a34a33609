"""Jobs written by plain SQL, from any language: valid ones run, and an odd one never stops the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql

from rowcall import Job, Rowcall, Status
from tests.store.postgres.databases import fresh_database, migrated

# SQL, by the kind of column that it is odd for; a column takes what its type lets pass
ODD_VALUES = {
    "timestamptz": [
        "'infinity'",
        "'-infinity'",
        "'0001-01-01 00:00+00'",
        "'4713-01-01 00:00+00 BC'",
        "'1969-12-31 23:59:59.9999+00'",
        "'9999-12-31 23:59:59.999999+00'",
        "'294276-12-31 00:00+00'",
    ],
    "id": ["9223372036854775806", "-9223372036854775808", "0", "-1"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "4611686018427387903", "0", "-1"],
    "integer": ["2147483647", "-2147483648", "1073741823", "0", "-1"],
    "float8": ["'NaN'", "'Infinity'", "'-Infinity'", "1e308", "5e-324", "1e10", "1e-6", "0", "-1"],
    "text": [
        "''",
        "' '",
        "E'\\n\\x01'",
        "'ünï😀'",
        "'[['",
        "'null'",
        "'{}'",
        "repeat('x', 200)",
        "repeat('x', 100000)",
    ],
    "jsonb": [
        "'null'",
        "'1e1000'",
        "'\"text\"'",
        "'[]'",
        '\'[1, null, true, {"a": 1}, [[]], "", "x", "x"]\'',
        "'{\"number\": 1e400}'",
        '\'{"number": "ünï😀"}\'',
        "(repeat('[', 3000) || repeat(']', 3000))::jsonb",
        "jsonb_build_array(repeat('x', 2500))",
        "jsonb_build_object('number', repeat('x', 1000000))",
    ],
}
COLUMNS = {
    "id": "id",
    "lease": "bigint",
    "run_at": "timestamptz",
    "created_at": "timestamptz",
    "expires_at": "timestamptz",
    "claimed_at": "timestamptz",
    "started_at": "timestamptz",
    "finished_at": "timestamptz",
    "chain_id": "bigint",
    "batch_id": "bigint",
    "parent_id": "bigint",
    "parent_step": "integer",
    "detached": "integer",
    "timeout": "float8",
    "progress": "float8",
    "priority": "integer",
    "attempt": "integer",
    "max_attempts": "integer",
    "lost": "integer",
    "chain_index": "integer",
    "status": "text",
    "queue": "text",
    "type": "text",
    "worker": "text",
    "held": "text",
    "retry": "text",
    "target": "text",
    "key": "text",
    "trace_context": "text",
    "on_end": "jsonb",
    "progress_message": "text",
    "error_code": "text",
    "error_detail": "text",
    "traceback": "text",
    "tags": "jsonb",
    "payload": "jsonb",
    "result": "jsonb",
    "turn": "bigint",
    "limits": "text",
    "fair": "text",
    "ordered": "text",
    "weight": "integer",
    "order_blocks": "integer",
    "unfit": "text",
    "deadline_at": "timestamptz",
}
ONE_OF = 1 if "ROWCALL_TEST_ODD_ROWS" in os.environ else 3
EXTREMES = {
    "lease": 4611686018427387903,
    "attempt": 1073741823,
    "lost": 1073741823,
    "max_attempts": 1073741823,
}


@pytest.fixture(scope="module")
def url(postgres_server_url: str) -> Iterator[str]:
    with fresh_database(postgres_server_url) as url, migrated(url):
        yield url


@pytest.fixture
def shell(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("truncate rowcall_job, rowcall_worker restart identity cascade")
        yield connection


@pytest.fixture
def jobs(url: str, shell: psycopg.Connection) -> Iterator[Rowcall]:
    with Rowcall(url) as jobs:

        @jobs.task
        def double(number: int = 21) -> int:
            return 2 * number

        yield jobs


def insert(shell: psycopg.Connection, **row: object) -> int:
    found = shell.execute(
        sql.SQL("insert into rowcall_job ({}) values ({}) returning id").format(
            sql.SQL(", ").join(map(sql.Identifier, row)), sql.SQL(", ").join(map(sql.Literal, row.values()))
        )
    ).fetchone()
    assert found is not None
    return int(found[0])


def test_type_and_payload_make_a_job(jobs: Rowcall, shell: psycopg.Connection) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=2)
    job = jobs.get(insert(shell, type="double", payload='{"number": 4}'))
    assert (job.status, job.queue, job.priority, job.attempt, job.max_attempts) == ("scheduled", "default", 0, 0, 5)
    assert before <= job.run_at <= datetime.now(UTC) + timedelta(milliseconds=2)
    assert abs(job.created_at - job.run_at) <= timedelta(milliseconds=2)
    assert jobs.drain().succeeded == 1
    assert jobs.get(job.id).result == 8


def test_the_type_alone_makes_a_job(jobs: Rowcall, shell: psycopg.Connection) -> None:
    job_id = insert(shell, type="double")
    jobs.drain()
    assert jobs.get(job_id).result == 42


def test_any_column_can_be_given(jobs: Rowcall, shell: psycopg.Connection) -> None:
    run_at = datetime(2090, 1, 1, 12, 30, 0, 1000, tzinfo=UTC)
    job_id = insert(
        shell,
        type="double",
        queue="mail",
        priority=7,
        max_attempts=2,
        run_at=run_at,
        expires_at=run_at + timedelta(seconds=1),
        timeout=3,
        tags='["a", "b"]',
        retry='{"kind": "constant", "base_seconds": 1}',
    )
    job = jobs.get(job_id)
    assert (job.queue, job.priority, job.max_attempts, job.run_at, job.timeout) == ("mail", 7, 2, run_at, 3.0)
    assert job.expires_at == run_at + timedelta(seconds=1)
    assert job.tags == ("a", "b")
    assert jobs.list(tag="b").jobs == [job]


@pytest.mark.parametrize("status", Status)
def test_any_word_for_the_status_can_be_given(jobs: Rowcall, shell: psycopg.Connection, status: Status) -> None:
    job_id = insert(shell, type="double", status=status.value)
    assert jobs.list(status=status).jobs == [jobs.get(job_id)]
    jobs.drain()
    runs = status in ("scheduled", "pending", "running")  # a job that plain SQL marks as running has no worker
    assert jobs.get(job_id).status == ("succeeded" if runs else status)
    assert jobs.enqueue("double").id > job_id
    assert jobs.drain().succeeded == 1


def test_many_rows_by_one_statement_and_from_another_table(jobs: Rowcall, shell: psycopg.Connection) -> None:
    shell.execute(
        "insert into rowcall_job (type, payload) select 'double', jsonb_build_object('number', n)"
        " from generate_series(1, 20) as n"
    )
    assert jobs.drain().succeeded == 20
    assert sorted(job.result for job in jobs.list().jobs) == [2 * number for number in range(1, 21)]  # type: ignore[type-var]


def test_a_transaction_that_is_rolled_back_leaves_no_job(jobs: Rowcall, shell: psycopg.Connection) -> None:
    with shell.transaction(force_rollback=True):
        insert(shell, type="double", tags='["a"]')
    assert jobs.list().jobs == jobs.list(tag="a").jobs == []


def look_at_everything(jobs: Rowcall) -> list[Job]:
    shown = jobs.list(limit=500).jobs
    for job in shown:
        if job.id > 0:
            assert repr(jobs.get(job.id)) == repr(job)  # a progress that is no number does not equal itself
            jobs.attempts(job.id)
            jobs.timeline(job.id)
    assert jobs.stats().total == len(shown)
    return shown


def insert_odd(shell: psycopg.Connection, column: str) -> int:
    """Insert one row for each odd value, or a share of them, and state that the database accepts. Return how many."""
    accepted = 0
    for value in ODD_VALUES[COLUMNS[column]][list(COLUMNS).index(column) % ONE_OF :: ONE_OF]:
        for status in ("scheduled", "pending", "running", "succeeded"):
            row = {"type": "'double'", "status": f"'{status}'", column: value}
            statement = f"insert into rowcall_job ({', '.join(row)}) values ({', '.join(row.values())})"
            try:
                shell.execute(statement.encode())
            except (psycopg.IntegrityError, psycopg.DataError):
                continue
            accepted += 1
    return accepted


@pytest.mark.parametrize("column", COLUMNS)
def test_an_odd_value_is_refused_or_harms_no_other_job(jobs: Rowcall, shell: psycopg.Connection, column: str) -> None:
    accepted = insert_odd(shell, column)
    look_at_everything(jobs)
    good = jobs.enqueue("double", {"number": 1})
    claimed = jobs.claim("me", limit=accepted + 1)
    assert good.id in [job.id for job in claimed]
    for job in claimed:
        jobs.release(job)
    jobs.drain()
    assert jobs.get(good.id).result == 2
    look_at_everything(jobs)


def test_no_column_is_left_out(shell: psycopg.Connection) -> None:
    rows = shell.execute(
        "select column_name, udt_name from information_schema.columns"
        " where table_name = 'rowcall_job' and table_schema = 'public'"
    ).fetchall()
    assert {name for name, _ in rows} == COLUMNS.keys()
    names = {"id": "int8", "bigint": "int8", "integer": "int4"}
    assert dict(rows) == {name: names.get(kind, kind) for name, kind in COLUMNS.items()}


@pytest.mark.parametrize("column", EXTREMES)
@pytest.mark.parametrize("status", ["scheduled", "pending", "running"])
def test_a_number_at_the_end_of_its_range_harms_no_other_job(
    jobs: Rowcall, shell: psycopg.Connection, column: str, status: str
) -> None:
    """Claims, settlements and recoveries add to some of them."""
    began = {"started_at": datetime.now(UTC), "worker": "gone"} if status == "running" else {}
    odd = insert(shell, type="double", status=status, **began, **{column: EXTREMES[column]})
    expired = insert(shell, type="double", expires_at=datetime(2020, 1, 1, tzinfo=UTC), **{column: EXTREMES[column]})
    good = jobs.enqueue("double", {"number": 1})
    jobs.drain()
    assert jobs.get(good.id).result == 2
    assert jobs.get(odd).status in ("succeeded", "failed")
    assert jobs.get(expired).status in ("cancelled", "succeeded")
    jobs.retry(odd)
    assert jobs.drain().succeeded == 1


def test_a_payload_of_ten_megabytes(jobs: Rowcall, shell: psycopg.Connection) -> None:
    @jobs.task
    def length(text: str) -> int:
        return len(text)

    shell.execute(
        "insert into rowcall_job (type, payload) values ('length', jsonb_build_object('text', repeat('ä', 10000000)))"
    )
    jobs.drain()
    assert [job.result for job in jobs.list().jobs] == [10_000_000]


def test_tags_of_any_kind_are_shown_as_text_and_found(jobs: Rowcall, shell: psycopg.Connection) -> None:
    job_id = insert(shell, type="double", tags='["a", 1, true, null, {"b": 2}, ["c"], "a", "ünï😀", ""]')
    for tag in ("a", "1", "true", "ünï😀"):
        assert [job.id for job in jobs.list(tag=tag).jobs] == [job_id], tag
    jobs.drain()
    assert jobs.get(job_id).status == "succeeded"


def test_a_tag_too_long_for_an_index_is_refused_with_its_row(jobs: Rowcall, shell: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        shell.execute(
            "insert into rowcall_job (type, tags) select 'double', jsonb_build_array(string_agg(md5(n::text), ''))"
            " from generate_series(1, 1000) as n"
        )
    assert jobs.list().jobs == []


ODD_SETTINGS = {
    "timezone": "Asia/Kathmandu",
    "datestyle": "SQL,DMY",
    "intervalstyle": "postgres_verbose",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
    "enable_indexscan": "off",
}


def test_settings_of_the_role_or_the_database_change_nothing(url: str, jobs: Rowcall) -> None:
    run_at = datetime(2090, 1, 1, 12, 30, 0, 1000, tzinfo=UTC)
    options = "%20".join(f"-c%20{name}%3D{value}" for name, value in ODD_SETTINGS.items())
    with Rowcall(f"{url}?options={options}") as odd:
        later = odd.enqueue("double", run_at=run_at, tags=["a"], timeout=0.1)
        now = odd.enqueue("double")
        assert jobs.list().jobs == odd.list().jobs == [now, later]
        assert (later.run_at, later.timeout, later.tags) == (run_at, 0.1, ("a",))
        assert abs(now.run_at - datetime.now(UTC)) < timedelta(minutes=1)
        claimed = odd.dequeue("me")
        assert claimed is not None
        odd.complete(claimed, result=1.1)
        done = odd.get(now.id)
        assert (done.status, done.result) == ("succeeded", 1.1)
        assert jobs.timeline(now.id) == odd.timeline(now.id)
