from __future__ import annotations

import json
import re

from rowcall import Limit, Rowcall
from tests.cli.conftest import Run
from tests.cli.terminal import on_a_terminal


def test_jobs_are_listed_newest_first_in_aligned_columns(run: Run, filled: Rowcall) -> None:
    lines = run("jobs", "app:jobs").stdout.splitlines()
    assert lines[0].split() == ["id", "type", "queue", "status", "attempt", "when", "detail"]
    assert [line.split()[0] for line in lines[2:]] == ["4", "3", "2", "1"]
    column = lines[0].index("status")
    assert [line[column:].split()[0] for line in lines[2:]] == ["pending", "scheduled", "succeeded", "failed"]
    assert "due in 3 d" in lines[3]
    assert "ValueError: it is [bold]broken[/bold] \\x1b[31m" in lines[5]


def test_a_failed_job_shows_only_the_attempts_that_it_had(run: Run, filled: Rowcall) -> None:
    shown = {line.split()[0]: line.split()[4] for line in run("jobs", "app:jobs").stdout.splitlines()[2:]}
    attempts = {str(job.id): f"{job.attempt}/{job.max_attempts}" for job in filled.list()}
    assert shown == attempts | {"1": "1"}


def test_jobs_can_be_narrowed_and_paged(run: Run, filled: Rowcall) -> None:
    def ids(*options: str) -> list[int]:
        return [job["id"] for job in json.loads(run("jobs", "app:jobs", "--json", *options).stdout)["jobs"]]

    assert ids() == [4, 3, 2, 1]
    assert ids("--status", "failed") == [1]
    assert ids("--queue", "mail") == [4]
    assert ids("--type", "broken") == [1]
    assert ids("--tag", "paid") == [3]
    page = json.loads(run("jobs", "app:jobs", "--json", "--limit", "3").stdout)
    assert ids("--cursor", page["next_cursor"]) == [1]
    assert json.loads(run("jobs", "app:jobs", "--json", "--limit", "4").stdout)["next_cursor"] is None
    shown = run("jobs", "app:jobs", "--limit", "3").stdout
    assert f"--cursor {page['next_cursor']}" in shown


def test_a_wide_terminal_has_room_for_arguments(queue: Rowcall) -> None:
    queue.enqueue("hello", {"name": "Ann", "text": "long " * 20})
    wide, narrow = (on_a_terminal("jobs", "app:jobs", columns=columns, NO_COLOR="1") for columns in (160, 120))
    assert '{"name":"Ann","text":"long long long ...' in wide
    assert "Ann" not in narrow


def test_why_jobs_wait_is_said_in_full_at_any_width(queue: Rowcall) -> None:
    @queue.task(limit=Limit("requests-to-the-billing-service", rate=1, per=600))
    def call() -> None: ...

    call.enqueue()
    call.enqueue()
    assert len(queue.claim("hand", limit=2)) == 1
    for columns in (80, 100, 160):
        shown = on_a_terminal("jobs", "app:jobs", columns=columns, NO_COLOR="1")
        words = " ".join(shown.split())
        assert "limit requests-to-the-billing-service" in words
        assert re.search(r"UTC\s+\(in", words), shown
        assert "..." not in shown


def test_a_wrong_cursor_is_wrong_use(run: Run, filled: Rowcall) -> None:
    result = run("jobs", "app:jobs", "--cursor", "7")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "next_cursor" in result.stderr


def test_no_jobs_is_said(run: Run, queue: Rowcall) -> None:
    assert run("jobs", "app:jobs").stdout == "no jobs\n"


JOB_FIELDS = [
    *("id", "type", "queue", "payload", "status", "priority", "attempt", "max_attempts", "run_at", "created_at"),
    *("claimed_at", "started_at", "finished_at", "worker", "heartbeat_at", "progress", "progress_message", "result"),
    *("error_code", "error_detail", "key", "tags", "chain_id", "chain_index", "expires_at", "deadline_at"),
    *("timeout", "retry", "target", "batch_id", "parent_id"),
]


def test_a_job_in_json_has_the_documented_fields(run: Run, filled: Rowcall) -> None:
    job = json.loads(run("jobs", "app:jobs", "--status", "succeeded", "--json").stdout)["jobs"][0]
    assert list(job) == JOB_FIELDS
    assert (job["payload"], job["result"], job["tags"]) == ({"name": "Ann"}, "hello Ann", [])
    assert job["created_at"].endswith("Z")
