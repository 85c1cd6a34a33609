"""`rowcall retention`, `prune` and `vacuum`: what is kept, what is deleted, and its space."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Retention, Rowcall
from rowcall.app import queue_of
from rowcall.domain.retention import retention_to_text
from rowcall.operations.effects import Write
from rowcall.operations.retention import prune_now
from rowcall.store.queries.counts import PUT_SETTING
from tests.cli.answers import answer_of, rows_of
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal


def test_retention_shows_rules_and_the_next_prune(run: Run, old: Rowcall) -> None:
    report = answer_of(run, "retention", "app:jobs")
    assert (report["jobs"], report["prunable"]) == (16, 5 + 4 + 3)
    kept = {(one["status"], one["queue"]): one for one in report["kept"]}
    names = ["status", "queue", "type", "keep", "jobs", "prunable", "more_prunable", "oldest_at"]
    assert list(kept["succeeded", "mail"]) == names
    assert (kept["succeeded", "mail"]["keep"], kept["succeeded", "mail"]["prunable"]) == (None, 0)
    assert (kept["succeeded", "default"]["keep"], kept["succeeded", "default"]["prunable"]) == (3600.0, 5)
    assert kept["failed", "mail"]["keep"] == 90 * 86_400
    rows = rows_of(run, "retention", "app:jobs")
    assert " ".join(rows[0]).startswith("16 finished jobs kept; the next prune deletes 12; the database is ")
    assert ["succeeded", "7", "5"] in rows
    assert ["succeeded", "default", "hello", "1", "h", "6", "5", "100", "d", "ago"] in rows
    assert ["succeeded", "mail", "hello", "forever", "1", "0", "100", "d", "ago"] in rows


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_each_row_of_a_narrow_table_says_which_jobs_are_meant(queue: Rowcall, columns: int) -> None:
    for name in ("deliver_the_webhooks_of_an_order", "send_order_confirmation"):
        queue.complete(queue.enqueue(name, queue="notifications").id, None)
    with Terminal("retention", "app:jobs", columns=columns, NO_COLOR="1") as terminal:
        assert terminal.wait() == 0
    lines = [line.split() for line in terminal.text.splitlines()]
    [heading] = [words for words in lines if words[:3] == ["state", "queue", "type"]]
    rows = lines[lines.index(heading) + 2 :]
    assert [words[:2] for words in rows if words[:1] == ["succeeded"]] == [["succeeded", "notifications"]] * 2
    shown = " ".join(word for words in [heading, *rows] for word in words)
    assert all(name in shown for name in ("keep", "kept", "next prune", "oldest"))


def test_prune_by_the_rules_of_the_app(run: Run, old: Rowcall) -> None:
    counted = {"succeeded": 5, "failed": 4, "cancelled": 3}
    assert answer_of(run, "prune", "app:jobs", "--dry-run") == {"jobs": 12, "by_status": counted, "dry_run": True}
    would = "would delete 12 jobs: 5 succeeded, 4 failed, 3 cancelled\n"
    assert run("prune", "app:jobs", "--dry-run").stdout == would
    assert old.stats().total == 16
    assert answer_of(run, "prune", "app:jobs") == {"jobs": 12, "by_status": counted, "dry_run": False}
    assert old.stats().by_status == {
        **dict.fromkeys(["blocked", "scheduled", "pending", "running"], 0),
        "succeeded": 2,
        "failed": 1,
        "cancelled": 1,
    }
    assert run("prune", "app:jobs").stdout == "no jobs to delete\n"


def test_without_the_app_the_rules_that_it_has_written_hold(run: Run, old: Rowcall) -> None:
    def kept_for() -> set[float | None]:
        report = answer_of(run, "retention", "--url", "sqlite:///queue.db")
        return {one["keep"] for one in report["kept"] if one["status"] == "succeeded"}

    assert kept_for() == {30 * 86_400}
    assert answer_of(run, "prune", "app:jobs")["jobs"] == 12
    assert kept_for() == {3600, None}
    assert answer_of(run, "prune", "--url", "sqlite:///queue.db")["jobs"] == 0


def test_prune_on_a_terminal_ends_with_what_was_deleted(old: Rowcall) -> None:
    with Terminal("prune", "app:jobs") as terminal:
        assert terminal.wait() == 0
    assert "deleting" in terminal.text
    assert "12 of 12" in terminal.text
    assert terminal.text.rstrip().endswith("deleted 12 jobs: 5 succeeded, 4 failed, 3 cancelled")


def test_an_interrupted_prune_has_deleted_what_it_printed(old: Rowcall) -> None:
    told_of: list[int] = []

    def interrupt(deleted: int) -> None:
        told_of.append(deleted)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_now(queue_of(old), interrupt)
    assert len(told_of) == 1
    assert old.stats().total == 16 - told_of[0]
    assert old.prune().jobs > 0


def test_prune_on_a_server(run: Run, server_queue: Rowcall) -> None:
    done = server_queue.enqueue("of_another_app")
    server_queue.cancel(done.id)
    assert answer_of(run, "prune", "app:jobs", "--dry-run")["jobs"] == 0
    rule = retention_to_text(Retention(cancelled=0))
    queue_of(server_queue).run(
        Write(lambda: queue_of(server_queue).dialect.ask(PUT_SETTING, "retention of task of_another_app", rule))
    )
    assert answer_of(run, "retention", "app:jobs")["prunable"] == 1
    assert answer_of(run, "prune", "app:jobs")["by_status"] == {"succeeded": 0, "failed": 0, "cancelled": 1}
    assert answer_of(run, "vacuum", "app:jobs")["size_bytes"] > 0


def test_vacuum_frees_the_space_of_deleted_jobs(run: Run, queue: Rowcall, folder: Path) -> None:
    for job in [queue.enqueue("hello", {"name": "x" * 100_000}) for _ in range(10)]:
        queue.delete(job.id)
    before = answer_of(run, "retention", "app:jobs")["size_bytes"]
    freed = answer_of(run, "vacuum", "app:jobs")
    assert freed["freed_bytes"] > 500_000
    assert freed["size_bytes"] == before - freed["freed_bytes"]
    assert run("vacuum", "app:jobs").stdout.startswith("0 bytes freed; the database is now ")
