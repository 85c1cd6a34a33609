from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.cli.conftest import Examine, Run, change


def test_a_healthy_database_is_said_to_be_well(run: Run, queue: Rowcall, examine: Examine) -> None:
    found = examine()
    assert found.exit_code == 0
    in_memory = found.level.pop("file system") == "warn"  # where temporary files are kept there
    assert set(found.level.values()) == {"ok"}
    for check in ("sqlite", "file", "integrity", "journal", "vacuum", "tables", "foreign keys", "waiting"):
        assert check in found.level
    shown = run("doctor", "app:jobs").stdout
    assert shown.endswith("0 problems, 1 warning\n" if in_memory else "no problems\n")


def test_a_problem_is_shown_with_what_to_do(run: Run, folder: Path) -> None:
    result = run("doctor")
    assert result.exit_code == 1
    lines = [line.strip().split(maxsplit=2) for line in result.stdout.splitlines()]
    at = lines.index(["problem", "file", f"there is no file {folder / 'rowcall.db'}"])
    assert " ".join(lines[at + 1]) == "→ Correct the path, or create it with: rowcall migrate"
    assert re.search(r"^1 problem, [01] warnings?$", result.stdout.splitlines()[-1])


@pytest.mark.parametrize("words", [("app:jobs",), ("--url", "sqlite:///queue.db")])
def test_what_to_type_names_the_same_database(
    app: Path, folder: Path, examine: Examine, run: Run, words: tuple[str, ...]
) -> None:
    target = " ".join(words)
    assert examine(*words).advice["file"] == f"Correct the path, or create it with: rowcall migrate {target}"
    change(folder, "create table mine (id integer primary key)")
    assert examine(*words).advice["tables"] == f"Create them with: rowcall migrate {target}"
    with Rowcall(folder / "queue.db") as jobs:
        jobs.pause("a queue")
        jobs.enqueue("hello", queue="a queue")
        assert "paused" not in examine(*words).level
        assert examine(*words).what["pauses"].startswith("queue a queue was paused by ")
        change(folder, "update rowcall_pause set at = at - 3600000")
        assert run("doctor", *words, "--strict").exit_code == 1
        assert examine(*words).advice["paused"].endswith(f"unless this is intended: rowcall resume {target} 'a queue'")


def test_the_advice_names_the_app_that_was_asked_about(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.enqueue("hello")
    change(folder, "update rowcall_job set run_at = run_at - 60000, created_at = created_at - 60000")
    assert examine("app:Holder.inner").advice["no_worker"] == "Start a worker: rowcall work app:Holder.inner"


def test_a_warning_counts_only_if_it_is_strict(run: Run, queue: Rowcall, folder: Path) -> None:
    queue.enqueue("hello")
    change(folder, "update rowcall_job set created_at = created_at + 3600000")
    for words, code in ((), 0), (("--strict",), 1):
        assert run("doctor", "app:jobs", *words).exit_code == code
        result = run("doctor", "app:jobs", "--json", *words)
        assert (result.exit_code, json.loads(result.stdout)["ok"]) == (code, not code)


def test_a_queue_in_memory_has_no_file(examine: Examine) -> None:
    found = examine("--url", "sqlite:///:memory:")
    assert found.exit_code == 0
    assert "in memory" in found.what["file"]
