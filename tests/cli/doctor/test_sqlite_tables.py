"""What the doctor says of the file itself."""

from __future__ import annotations

import re
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Limit, Rowcall
from rowcall.cli.doctor import sqlite_tables
from rowcall.store.sqlite.schema import NEWEST_VERSION
from tests.cli.conftest import Run
from tests.cli.doctor.conftest import Examine
from tests.support import PythonProcess, eventually


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw:
        for statement in statements:
            raw.execute(statement)


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
    app: Path, folder: Path, examine: Examine, words: tuple[str, ...]
) -> None:
    target = " ".join(words)
    assert examine(*words).advice["file"] == f"Correct the path, or create it with: rowcall migrate {target}"
    change(folder, "create table mine (id integer primary key)")
    assert examine(*words).advice["tables"] == f"Create them with: rowcall migrate {target}"
    with Rowcall(folder / "queue.db") as jobs:
        jobs.pause("a queue")
        assert examine(*words).advice["pauses"].endswith(f"unless this is intended: rowcall resume {target} 'a queue'")
        jobs.resume("a queue")
        jobs.pause(task="hello")
        assert (
            examine(*words).advice["pauses"].endswith(f"unless this is intended: rowcall resume {target} --task hello")
        )


def test_it_changes_nothing(app: Path, folder: Path, examine: Examine) -> None:
    change(folder, "create table mine (id integer primary key)")
    before = (folder / "queue.db").read_bytes()
    found = examine()
    assert found.level["tables"] == "problem"
    assert found.level["vacuum"] == "warn"
    assert "journal" not in found.level
    assert (folder / "queue.db").read_bytes() == before
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {"app.py", "queue.db"}


def test_of_an_empty_file_nothing_is_said_that_its_first_use_cures(app: Path, folder: Path, examine: Examine) -> None:
    (folder / "queue.db").touch()
    found = examine()
    # the file system of the tests may be one in memory
    assert {check for check, level in found.level.items() if level != "ok"} - {"file system"} == {"tables"}
    with Rowcall(folder / "queue.db") as jobs:
        jobs.migrate()
    found = examine()
    assert (found.level["journal"], found.level["vacuum"]) == ("ok", "ok")


def test_a_file_that_is_no_database(app: Path, folder: Path, examine: Examine) -> None:
    (folder / "queue.db").write_text("a shopping list, for instance\n" * 100)
    found = examine()
    assert (found.exit_code, found.level["database"]) == (1, "problem")
    assert "is not a SQLite database" in found.what["database"]


def test_a_damaged_file(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.enqueue("hello", {"name": "x" * 100_000})
    queue.close()
    change(folder, "pragma wal_checkpoint(truncate)")
    size = (folder / "queue.db").stat().st_size
    with (folder / "queue.db").open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * (size - 4096 * 2))
    found = examine()
    assert found.exit_code == 1
    assert "damaged" in (found.what.get("integrity", "") + found.what.get("database", ""))


def test_tables_of_a_newer_version(queue: Rowcall, folder: Path, examine: Examine) -> None:
    change(folder, "insert into rowcall_migration (version, name, applied_at) values (99, 'later', 1)")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (1, "problem")
    assert "newer than this code" in found.what["tables"]
    change(folder, "update rowcall_migration set oldest = 1 where version = 99")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (0, "ok")
    assert found.what["tables"].startswith("version 99, newer than this code")


def test_a_table_that_is_missing(queue: Rowcall, folder: Path, examine: Examine) -> None:
    change(folder, "drop table rowcall_event")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (1, "problem")
    assert found.what["tables"] == f"version {NEWEST_VERSION}, but rowcall_event is missing"
    assert found.advice["tables"].startswith("Restore what is missing from a backup")
    assert "database" not in found.level


def test_tables_of_an_older_version(
    queue: Rowcall, folder: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_tables, "NEWEST_VERSION", 99)
    assert examine().advice["tables"] == "Update them with: rowcall migrate app:jobs"


def test_tables_of_another_prefix(app: Path, folder: Path, examine: Examine) -> None:
    with Rowcall(folder / "queue.db", table_prefix="other_") as jobs:
        jobs.migrate()
    found = examine()
    assert found.level["tables"] == "problem"
    assert found.advice["tables"].endswith("prefix other_: set its table_prefix if you mean one of them")
    assert examine("--url", "sqlite:///queue.db").advice["tables"].endswith("other_: name the app instead of --url")


def test_rows_that_lost_their_job(queue: Rowcall, folder: Path, examine: Examine) -> None:
    job = queue.enqueue("hello", tags=["a", "b"])
    drop = "drop trigger rowcall_job_belongings"
    change(folder, "pragma foreign_keys = off", drop, f"delete from rowcall_job where id = {job.id}")
    found = examine()
    assert (found.exit_code, found.level["foreign keys"]) == (1, "problem")
    assert "2 in rowcall_job_tag" in found.what["foreign keys"]


def test_a_journal_that_is_no_wal(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.close()
    change(folder, "pragma journal_mode = delete")
    assert examine().what["journal"] == "the journal mode is delete, not wal"


def test_a_large_wal(queue: Rowcall, examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.enqueue("hello")
    monkeypatch.setattr(sqlite_tables, "OVERSIZED_WAL_BYTES", 1)
    assert examine().level["wal"] == "warn"


def test_who_holds_the_write_lock(queue: Rowcall, folder: Path, examine: Examine) -> None:
    program = "import sqlite3, sys; c = sqlite3.connect('queue.db'); c.execute('begin immediate');"
    program += "print('held', flush=True); import threading; threading.Event().wait()"
    with PythonProcess("-c", program, cwd=str(folder)) as holder:
        holder.wait_for("held")
        found = examine()
        assert found.level["write lock"] == "warn"
        assert found.what["write lock"] == f"held by process {holder.pid}"
    assert examine().level["write lock"] == "ok"


def test_jobs_without_a_worker(queue: Rowcall, examine: Examine) -> None:
    assert examine().what["waiting"] == "no due jobs are waiting"
    queue.enqueue("hello")
    queue.enqueue("hello", delay=3600)
    found = examine()
    assert (found.exit_code, found.level["waiting"]) == (0, "warn")
    assert found.what["waiting"].startswith("1 due job has been waiting for ")
    assert "no worker is alive" in found.what["waiting"]
    assert found.advice["waiting"] == "Start one: rowcall work app:jobs"


def test_jobs_that_wait_for_long(queue: Rowcall, folder: Path, examine: Examine) -> None:
    with queue.worker():
        queue.enqueue("unknown")
        queue.enqueue("unknown")
        found = examine()
        assert found.level["waiting"] == "ok"
        assert found.what["workers"] == "1 alive"
        change(folder, "update rowcall_job set run_at = run_at - 3600000, created_at = created_at - 3600000")
        found = examine()
        assert found.level["waiting"] == "warn"
        assert "2 due jobs are waiting, the first for 60 min" in found.what["waiting"]


def test_queues_that_no_living_worker_serves(queue: Rowcall, examine: Examine) -> None:
    queue.enqueue("hello", queue="mail")
    queue.enqueue("hello", queue="mail")
    queue.enqueue("hello", queue="odd=1,name")
    assert "queues" not in examine().level
    with queue.worker(queues={"mails": 2, "odd=1,name": None}):
        found = examine()
        assert (found.exit_code, found.level["queues"]) == (0, "warn")
        assert found.what["queues"] == ("no worker serves mail (2 waiting); the workers serve mails=2,odd=1,name")
        with queue.worker(queues="mail"):
            assert "queues" not in examine().level


def test_tasks_that_the_app_does_not_declare(queue: Rowcall, folder: Path, examine: Examine) -> None:
    for kind in ("hello", "helo"):
        queue.enqueue(kind)
    assert "tasks" not in examine().level
    change(folder, "update rowcall_job set run_at = run_at - 30000, created_at = created_at - 30000")
    found = examine()
    assert (found.exit_code, found.level["tasks"]) == (0, "warn")
    assert found.what["tasks"] == "app:jobs declares no task for helo (1 waiting)"
    assert "tasks" not in examine("--url", "sqlite:///queue.db").level


def test_a_worker_that_died(queue: Rowcall, folder: Path, examine: Examine) -> None:
    with PythonProcess("-m", "rowcall", "work", "app:jobs", cwd=str(folder)) as process:
        [worker] = eventually(queue.workers)
        process.send(signal.SIGKILL)
        process.wait()
    queue.enqueue("hello")
    found = examine()
    assert found.level["workers"] == "warn"
    assert found.what["workers"] == f"{worker.name} died while it held 0 jobs"
    assert found.level["waiting"] == "warn"
    assert found.what["waiting"].endswith("and no worker is alive")
    change(folder, f"update rowcall_job set status = 'running', worker = '{worker.name}', claimed_at = 1, lease = 1")
    assert examine().what["workers"] == f"{worker.name} died while it held 1 job"


def test_the_advice_names_the_app_that_was_asked_about(queue: Rowcall, examine: Examine) -> None:
    queue.enqueue("hello")
    assert examine("app:Holder.inner").advice["waiting"] == "Start one: rowcall work app:Holder.inner"


def test_a_worker_that_is_silent(queue: Rowcall, folder: Path, examine: Examine) -> None:
    with queue.worker(lease=3600) as worker:
        change(folder, "update rowcall_worker set beat_at = beat_at - 7200000")
        assert examine().what["workers"] == f"{worker.name} sent its last heartbeat 2 h ago, and holds 0 jobs"


def test_a_slot_of_a_handler_that_still_runs(queue: Rowcall, examine: Examine) -> None:
    began, let_go = threading.Event(), threading.Event()

    @queue.task(limit=Limit("stripe", concurrency=1), timeout=0.05, max_attempts=1)
    def charge() -> None:
        began.set()
        assert let_go.wait(30)

    job = charge.enqueue()
    with queue.worker(concurrency=2) as worker:
        eventually(lambda: queue.get(job.id).status == "failed")
        said = f"the handler of job {job.id} still runs in {worker.name} after its attempt ended"
        assert examine().what["limits"] == f'{said}, and keeps a slot of ["stripe"]'
        let_go.set()
        eventually(lambda: "limits" not in examine().level)


def test_a_job_from_the_future(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.enqueue("hello")
    change(folder, "update rowcall_job set created_at = created_at + 3600000")
    assert "60 min in the future" in examine().what["clock of the rows"]


def test_jobs_that_fit_no_worker(examine: Examine, run: Run, queue: Rowcall) -> None:
    queue.enqueue("hello", {"name": "ann", "loud": True})

    @queue.task
    def hello(name: str) -> None: ...

    queue.drain()
    said = r"1 job waits for a worker that accepts .*; .* refused job 1 \(hello\): unexpected argument 'loud'"
    assert re.fullmatch(said, examine().what["versions"])
    assert "no worker accepts it: unexpected argument 'loud'" in run("jobs", "app:jobs").stdout
    shown = run("show", "app:jobs", "1").stdout
    assert "unexpected argument 'loud'" in shown
    assert "HELD" in shown
