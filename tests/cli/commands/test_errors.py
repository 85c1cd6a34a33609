from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.cli.answers import answer_of, rows_of
from tests.cli.conftest import APP, Run

on_both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@on_both
def test_errors_are_grouped_with_a_sample(run: Run, troubled: Rowcall) -> None:
    [often, once] = answer_of(run, "errors", "app:jobs")["errors"]
    assert list(often) == ["error_code", "count", "types", "first_at", "last_at", "sample"]
    assert (often["error_code"], often["count"], often["types"]) == ("TIMEOUT:UPSTREAM_API", 2, {"flaky": 2})
    assert often["sample"] == "no answer"
    assert often["first_at"] <= often["last_at"]
    assert (once["error_code"], once["types"]) == ("INTERNAL:ValueError", {"broken": 1})
    rows = rows_of(run, "errors", "app:jobs")
    assert rows[0] == ["error", "jobs", "types", "first", "last"]
    assert rows[2][:4] == ["TIMEOUT:UPSTREAM_API", "2", "█" * 12, "flaky"]
    assert rows[3][:4] == ["INTERNAL:ValueError", "1", "█" * 6, "broken"]
    assert ["INTERNAL:ValueError", "it", "is", "[bold]broken[/bold]", "\\x1b[31m"] in rows


def test_no_secret_is_shown(run: Run, queue: Rowcall, app: Path) -> None:
    secret = "sk-12345"
    app.write_text(APP.replace('.db")', f'.db", scrub=lambda text: text.replace("{secret}", "***"))'))
    queue.enqueue("hello", {"name": "Ann"}, max_attempts=1)
    queue.fail(queue.claim("w", limit=1)[0], "TEST:SECRET", f"key {secret}")
    queue.enqueue("hello", {"name": secret})
    queue.claim("w", limit=1)
    for command in ("errors", "stuck", "top"):
        for form in ([], ["--json"]):
            shown = run(command, "app:jobs", *form)
            assert shown.exit_code == 0
            assert secret not in shown.output
    assert answer_of(run, "errors", "app:jobs")["errors"][0]["sample"] == "key ***"
    assert answer_of(run, "stuck", "app:jobs")["jobs"][0]["payload"] == {"name": "***"}


def test_errors_names_what_is_being_retried(run: Run, queue: Rowcall) -> None:
    assert run("errors", "app:jobs").stdout == "no failed jobs\n"
    for _ in range(2):
        queue.enqueue("hello", {"name": "Ann"})
    for job in queue.claim("w", limit=2):
        queue.fail(job, "API:DOWN", "refused\nmore")
    shown = answer_of(run, "errors", "app:jobs", "--window", "1h")
    assert shown == {
        "errors": [],
        "failing": [
            {
                "error_code": "API:DOWN",
                "attempts": 2,
                "failed": 0,
                "waiting": 2,
                "more_waiting": False,
                "types": {"hello": 2},
                "sample": "refused\nmore",
            }
        ],
    }
    assert answer_of(run, "top", "app:jobs", "--once")["failing"] == shown["failing"]
    for command in ("errors", "top"):
        assert ["API:DOWN", "2", "2", "0", "hello", "refused"] in rows_of(run, command, "app:jobs")
        assert "failing in the last 5 min, and waiting for a retry\n" in run(command, "app:jobs").stdout
    assert run("errors", "app:jobs").stdout.startswith("no failed jobs\n\nfailing ")
    assert answer_of(run, "errors", "app:jobs", "--error-code", "API:*", "--type", "broken")["failing"] == []
    assert run("errors", "app:jobs", "--window", "99d").exit_code == 2


def test_errors_can_be_limited(run: Run, troubled: Rowcall) -> None:
    assert len(answer_of(run, "errors", "app:jobs", "--limit", "1")["errors"]) == 1
    assert "only the first 1 are shown" in run("errors", "app:jobs", "--limit", "1").stdout
    for command in ("errors", "stuck"):
        assert run(command, "app:jobs", "--limit", "0").exit_code == 2
