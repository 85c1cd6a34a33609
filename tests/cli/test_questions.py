"""`stats`, `stuck`, `retries`, `errors`, `retention`, `prune`, `vacuum`: the answers, for people and for programs."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rowcall import Retention, Rowcall
from rowcall.cli.load import load
from rowcall.domain.retention import retention_to_text
from rowcall.operations.retention import prune_now
from rowcall.store.counts.queries import PUT_SETTING
from tests.cli.conftest import APP, Run
from tests.cli.terminal import Terminal

QUESTIONS = ["stats", "stuck", "retries", "errors", "retention"]
DAY_MS = 86_400_000

KEEPING = APP.replace(
    'Rowcall("sqlite:///queue.db")',
    'Rowcall("sqlite:///queue.db", retention=Retention(succeeded=3600, queues={"mail": Retention(succeeded=None)}))',
).replace("import Rowcall", "import Retention, Rowcall")

TROUBLED = (
    APP
    + """
from rowcall import Backoff, Fail

@jobs.task(queue="mail", max_attempts=3, retry=Backoff.constant(0))
def flaky(fails: int) -> None:
    from rowcall import current
    if current().job.attempt <= fails:
        raise Fail("TIMEOUT:UPSTREAM_API", "no answer") if fails > 5 else OSError(f"try {current().job.attempt}")
"""
)


on_both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The URL of a file, unless a server is asked for."""
    on_server = getattr(request, "param", "sqlite") == "postgres"
    return str(request.getfixturevalue("postgres_url")) if on_server else "sqlite:///queue.db"


@pytest.fixture
def troubled(app: Path, database: str) -> Iterator[Rowcall]:
    """3 succeeded, one at its third attempt; 3 failed for two reasons; 1 runs by hand; 1 is far off, and 1 waits."""
    app.write_text(TROUBLED.replace("sqlite:///queue.db", database))
    jobs = load("app:jobs")
    for name in ("Ann", "Bob"):
        jobs.enqueue("hello", {"name": name})
    jobs.enqueue("broken")
    for fails in (2, 6, 6):
        jobs.enqueue("flaky", {"fails": fails})
    jobs.drain()
    jobs.enqueue("hello", {"name": "Eve"}, queue="slow")
    [claimed] = jobs.claim("by-hand", limit=1)
    jobs.heartbeat(claimed)
    jobs.enqueue("hello", {"name": "Kim"}, delay=86_400)
    jobs.enqueue("hello", {"name": "Lee"})
    with closing(jobs):
        yield jobs


@pytest.fixture
def old(queue: Rowcall, app: Path, folder: Path) -> Rowcall:
    """Of each outcome some that ended 100 days ago, in two queues, and one of today; the app has rules of its own."""
    app.write_text(KEEPING)
    with closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw:
        [now] = raw.execute("select cast(strftime('%s', 'now') as integer) * 1000").fetchone()
        for status, count in (("succeeded", 5), ("failed", 3), ("cancelled", 2)):
            for age, queue_name in [*[(100, "default")] * count, (0, "default"), (100, "mail")]:
                at = now - age * DAY_MS
                raw.execute(
                    "insert into rowcall_job (type, queue, status, created_at, finished_at) values (?, ?, ?, ?, ?)",
                    ("hello", queue_name, status, at, at),
                )
    return queue


def told(run: Run, *words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def rows_of(run: Run, *words: str) -> list[list[str]]:
    """The words of each line, as they are printed into a pipe."""
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    assert [line for line in result.stdout.splitlines() if line != line.rstrip()] == []
    return [line.split() for line in result.stdout.splitlines()]


@pytest.mark.parametrize("command", [*QUESTIONS, "prune", "vacuum", "top"])
def test_an_empty_database_is_no_error(run: Run, queue: Rowcall, command: str) -> None:
    assert run(command, "app:jobs").exit_code == 0
    assert run(command, "app:jobs", "--json").exit_code == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("stuck", "no running jobs\n"),
        ("retries", "no jobs\n"),
        ("errors", "no failed jobs\n"),
        ("prune", "no jobs to delete\n"),
    ],
)
def test_nothing_to_tell_is_said(run: Run, queue: Rowcall, command: str, said: str) -> None:
    assert run(command, "app:jobs").stdout == said


def test_nothing_is_told_in_json_too(run: Run, queue: Rowcall) -> None:
    assert told(run, "stuck", "app:jobs") == {"jobs": []}
    assert told(run, "errors", "app:jobs") == {"errors": []}
    assert told(run, "retries", "app:jobs") == {"by_attempts": {}, "by_type": {}}
    report = told(run, "retention", "app:jobs")
    assert (report["kept"], report["jobs"], report["prunable"]) == ([], 0, 0)
    assert report["size_bytes"] > 0


@on_both
def test_stats_tell_states_queues_types_and_rates(run: Run, troubled: Rowcall) -> None:
    stats = told(run, "stats", "app:jobs")
    assert list(stats) == [
        *("total", "by_status", "by_queue", "by_type", "oldest_waiting", "oldest_waiting_by_queue", "window"),
        *("arrival_window", "arrivals_per_second", "completions_per_second", "pace", "pace_by_queue", "pace_by_type"),
        "paused",
    ]
    assert stats["total"] == 9
    assert {status: count for status, count in stats["by_status"].items() if count} == {
        **dict.fromkeys(["scheduled", "pending", "running"], 1),
        **dict.fromkeys(["succeeded", "failed"], 3),
    }
    assert stats["by_queue"]["mail"]["failed"] == 2
    assert stats["by_type"]["broken"]["failed"] == 1
    assert set(stats["pace"]) == {"arrived", "succeeded", "failed", "retried", "wait", "run"}
    assert [stats["pace"][name] for name in ("arrived", "succeeded", "failed", "retried")] == [9, 3, 3, 2]
    assert set(stats["pace_by_type"]["flaky"]["run"]) == {"p50", "p95", "p99"}
    assert 300 <= stats["window"] <= 360
    assert stats["arrivals_per_second"] == pytest.approx(9 / stats["arrival_window"])


def test_stats_in_a_pipe(run: Run, troubled: Rowcall) -> None:
    rows = rows_of(run, "stats", "app:jobs")
    assert ["failed", "3", "██████████"] in rows
    [waiting] = [row for row in rows if row[:1] == ["waiting"]]
    assert waiting[:6] == ["waiting", "the", "oldest", "due", "job", "has"]
    assert ["queue", "scheduled", "pending", "running", "succeeded", "failed", "all", "oldest"] in rows
    assert ["mail", "0", "0", "0", "1", "2", "3", "-"] in rows
    assert ["type", "scheduled", "pending", "running", "succeeded", "failed", "all"] in rows
    [busy] = [row for row in rows if row[:5] == ["flaky", "3", "1", "2", "2"]]
    assert len(busy) == 5 + 6 * 2


def test_the_window_of_stats(run: Run, queue: Rowcall) -> None:
    for typed, seconds in (("90", 90), ("10m", 600), ("1.5h", 5400), ("2d", 172_800)):
        window = told(run, "stats", "app:jobs", "--window", typed)["window"]
        assert seconds <= window < seconds + (60 if seconds < 86_400 else 3600)  # older history has whole hours
    for wrong in ("soon", "5 parsecs", "-1", "0", "31d"):
        result = run("stats", "app:jobs", f"--window={wrong}")
        assert (result.exit_code, result.stdout) == (2, "")


def test_many_types_are_cut_for_people_only(run: Run, queue: Rowcall) -> None:
    for number in range(25):
        queue.enqueue(f"type-{number:02}")
    assert len(told(run, "stats", "app:jobs")["by_type"]) == 25
    shown = run("stats", "app:jobs").stdout
    assert "and 5 more; --json has them all" in shown
    assert "type-19" in shown
    assert "type-20" not in shown


@on_both
def test_stuck_says_who_has_what_for_how_long(run: Run, troubled: Rowcall) -> None:
    [job] = told(run, "stuck", "app:jobs")["jobs"]
    assert (job["type"], job["queue"], job["worker"]) == ("hello", "slow", "by-hand")
    assert list(job)[-4:] == ["silent_for", "host", "worker_silent_for", "worker_state"]
    assert (job["host"], job["worker_silent_for"], job["worker_state"]) == (None, None, None)
    assert 0 <= job["silent_for"] < 60
    [head, _, row] = rows_of(run, "stuck", "app:jobs")
    assert " ".join(head) == "id type queue attempt silent for running for worker host worker seen progress"
    assert row[:4] == [str(job["id"]), "hello", "slow", "1/5"]
    assert row[-3:] == ["by-hand", "not", "registered"]


def test_stuck_begins_with_the_longest_silence(run: Run, queue: Rowcall, folder: Path) -> None:
    for _ in range(3):
        queue.enqueue("hello")
    claimed = queue.claim("somebody", limit=3)
    with closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw:
        raw.execute(
            "update rowcall_job set claimed_at = claimed_at - 7500000, started_at = started_at - 7500000,"
            " progress = 0.4, progress_message = 'row 40' where id = ?",
            (claimed[1].id,),
        )
    shown = told(run, "stuck", "app:jobs", "--limit", "2")["jobs"]
    assert [job["id"] for job in shown] == [claimed[1].id, claimed[0].id]
    assert (shown[0]["progress"], shown[0]["progress_message"]) == (0.4, "row 40")
    assert shown[0]["silent_for"] > 7500
    row = rows_of(run, "stuck", "app:jobs")[2]
    assert " ".join(row).startswith(f"{claimed[1].id} hello default 1/5 2h 05m 2h 05m somebody")
    assert row[-3:] == ["40%", "row", "40"]


def test_a_silent_worker_is_told_beside_its_job(run: Run, queue: Rowcall, folder: Path) -> None:
    jobs = load("app:jobs")
    job = jobs.enqueue("hello", {"name": "Ann"})
    with (
        jobs.worker(queues="nothing-else", lease=3600) as worker,
        closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw,
    ):
        raw.execute("update rowcall_worker set beat_at = beat_at - 9000000")
        raw.execute(
            "update rowcall_job set status = 'running', attempt = 1, lease = 1, worker = ?, claimed_at = run_at",
            (worker.name,),
        )
        [shown] = told(run, "stuck", "app:jobs")["jobs"]
        assert (shown["id"], shown["worker_state"]) == (job.id, "silent")
        assert shown["worker_silent_for"] > 9000
        assert shown["host"]
        assert "2h 30m ago (silent)" in run("stuck", "app:jobs").stdout
        raw.execute("update rowcall_job set status = 'scheduled', worker = null, claimed_at = null")
    jobs.close()


@on_both
def test_retries_are_drawn_in_all_and_by_type(run: Run, troubled: Rowcall) -> None:
    assert told(run, "retries", "app:jobs") == {
        "by_attempts": {"0": 2, "1": 6, "3": 1},
        "by_type": {"broken": {"1": 1}, "flaky": {"1": 2, "3": 1}, "hello": {"0": 2, "1": 3}},
    }
    rows = rows_of(run, "retries", "app:jobs")
    assert ["1", "6", "█" * 30] in rows
    assert ["3", "1", "█" * 5] in rows
    assert rows[rows.index(["type", "0", "1", "3", "retried"]) + 2] == ["flaky", "0", "2", "1", "33", "%"]


@on_both
def test_errors_are_grouped_with_a_sample(run: Run, troubled: Rowcall) -> None:
    [often, once] = told(run, "errors", "app:jobs")["errors"]
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
    assert told(run, "errors", "app:jobs")["errors"][0]["sample"] == "key ***"
    assert told(run, "stuck", "app:jobs")["jobs"][0]["payload"] == {"name": "***"}


def test_errors_can_be_limited(run: Run, troubled: Rowcall) -> None:
    assert len(told(run, "errors", "app:jobs", "--limit", "1")["errors"]) == 1
    assert "only the first 1 are shown" in run("errors", "app:jobs", "--limit", "1").stdout
    for command in ("errors", "stuck"):
        assert run(command, "app:jobs", "--limit", "0").exit_code == 2


def test_retention_tells_rules_and_what_comes_next(run: Run, old: Rowcall) -> None:
    report = told(run, "retention", "app:jobs")
    assert (report["jobs"], report["prunable"]) == (16, 5 + 4 + 3)
    kept = {(one["status"], one["queue"]): one for one in report["kept"]}
    assert list(kept["succeeded", "mail"]) == ["status", "queue", "type", "keep", "jobs", "prunable", "oldest_at"]
    assert (kept["succeeded", "mail"]["keep"], kept["succeeded", "mail"]["prunable"]) == (None, 0)
    assert (kept["succeeded", "default"]["keep"], kept["succeeded", "default"]["prunable"]) == (3600.0, 5)
    assert kept["failed", "mail"]["keep"] == 90 * 86_400
    rows = rows_of(run, "retention", "app:jobs")
    assert " ".join(rows[0]).startswith("16 finished jobs kept; the next prune deletes 12; the database is ")
    assert ["succeeded", "7", "5"] in rows
    assert ["succeeded", "default", "hello", "1", "h", "6", "5", "100", "d", "ago"] in rows
    assert ["succeeded", "mail", "hello", "forever", "1", "0", "100", "d", "ago"] in rows


def test_prune_by_the_rules_of_the_app(run: Run, old: Rowcall) -> None:
    counted = {"succeeded": 5, "failed": 4, "cancelled": 3}
    assert told(run, "prune", "app:jobs", "--dry-run") == {"jobs": 12, "by_status": counted, "dry_run": True}
    would = "would delete 12 jobs: 5 succeeded, 4 failed, 3 cancelled\n"
    assert run("prune", "app:jobs", "--dry-run").stdout == would
    assert old.stats().total == 16
    assert told(run, "prune", "app:jobs") == {"jobs": 12, "by_status": counted, "dry_run": False}
    assert old.stats().by_status == {
        **dict.fromkeys(["blocked", "scheduled", "pending", "running"], 0),
        "succeeded": 2,
        "failed": 1,
        "cancelled": 1,
    }
    assert run("prune", "app:jobs").stdout == "no jobs to delete\n"


def test_without_the_app_the_rules_that_it_has_written_hold(run: Run, old: Rowcall) -> None:
    def kept_for() -> set[float | None]:
        report = told(run, "retention", "--url", "sqlite:///queue.db")
        return {one["keep"] for one in report["kept"] if one["status"] == "succeeded"}

    assert kept_for() == {30 * 86_400}
    assert told(run, "prune", "app:jobs")["jobs"] == 12
    assert kept_for() == {3600, None}
    assert told(run, "prune", "--url", "sqlite:///queue.db")["jobs"] == 0


def test_prune_on_a_terminal_ends_with_what_was_deleted(old: Rowcall) -> None:
    with Terminal("prune", "app:jobs") as terminal:
        assert terminal.wait() == 0
    assert "deleting" in terminal.text
    assert "12 of 12" in terminal.text
    assert terminal.text.rstrip().endswith("deleted 12 jobs: 5 succeeded, 4 failed, 3 cancelled")


def test_a_prune_that_is_interrupted_has_done_what_it_told(old: Rowcall) -> None:
    told_of: list[int] = []

    def interrupt(deleted: int) -> None:
        told_of.append(deleted)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_now(old, interrupt)
    assert len(told_of) == 1
    assert old.stats().total == 16 - told_of[0]
    assert old.prune().jobs > 0


def test_prune_on_a_server(run: Run, server_queue: Rowcall) -> None:
    done = server_queue.enqueue("of_another_app")
    server_queue.cancel(done.id)
    assert told(run, "prune", "app:jobs", "--dry-run")["jobs"] == 0
    rule = retention_to_text(Retention(cancelled=0))
    server_queue.write(lambda: server_queue.dialect.ask(PUT_SETTING, "retention of task of_another_app", rule))
    assert told(run, "retention", "app:jobs")["prunable"] == 1
    assert told(run, "prune", "app:jobs")["by_status"] == {"succeeded": 0, "failed": 0, "cancelled": 1}
    assert told(run, "vacuum", "app:jobs")["size_bytes"] > 0


def test_vacuum_gives_back_what_was_deleted(run: Run, queue: Rowcall, folder: Path) -> None:
    for job in [queue.enqueue("hello", {"name": "x" * 100_000}) for _ in range(10)]:
        queue.delete(job.id)
    before = told(run, "retention", "app:jobs")["size_bytes"]
    freed = told(run, "vacuum", "app:jobs")
    assert freed["freed_bytes"] > 500_000
    assert freed["size_bytes"] == before - freed["freed_bytes"]
    assert run("vacuum", "app:jobs").stdout.startswith("0 bytes freed; the database is now ")


@pytest.mark.parametrize(
    ("command", "columns"), [*((command, 40) for command in QUESTIONS), ("stuck", 110), ("errors", 110)]
)
def test_answers_fit_a_terminal(old: Rowcall, command: str, columns: int) -> None:
    name = "a-task-with-a-name-that-is-longer-than-some-terminals-are-wide"
    old.enqueue(name, max_attempts=1)
    old.fail(old.claim("w", limit=1)[0], "TEST:LONG", "said " * 60)
    old.enqueue(name, queue=name)
    old.claim("a-worker-of-some-host:4242:9f3c01", limit=1)
    with Terminal(command, "app:jobs", columns=columns, NO_COLOR="1") as terminal:
        assert terminal.wait() == 0
    assert max(len(line) for line in terminal.text.splitlines()) <= columns
    assert "…" not in terminal.text
    assert "\x1b[3" not in terminal.drawn


def test_colours_show_what_is_bad(troubled: Rowcall) -> None:
    with Terminal("errors", "app:jobs") as terminal:
        assert terminal.wait() == 0
    assert re.search(r"\x1b\[31mTIMEOUT:UPSTREAM_API", terminal.drawn)
