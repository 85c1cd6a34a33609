"""`rowcall work` as a real process."""

from __future__ import annotations

import logging
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run
from tests.support import ForkedProcess, PythonProcess, eventually

SMALL = """
import sys
from pathlib import Path
from app import jobs

@jobs.task
def loaded() -> dict[str, object]:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"modules": sorted(sys.modules), "megabytes": int(status["VmRSS"].split()[0]) / 1024}
"""

TALKING = """
from app import jobs
from rowcall import Context

@jobs.task
def talk(ctx: Context) -> None:
    ctx.log.info("about %s", "it")
    raise ValueError("enough")
"""


def test_it_runs_jobs_until_a_signal(queue: Rowcall, folder: Path) -> None:
    with ForkedProcess("-m", "rowcall", "work", "app:jobs", "--queues=default=2,mail", cwd=str(folder)) as process:
        job = queue.enqueue("hello", {"name": "Ann"})
        eventually(lambda: queue.get(job.id).status == "succeeded")
        assert queue.get(job.id).result == "hello Ann"
        [worker] = queue.workers()
        assert (worker.pid, worker.queues) == (process.pid, "default=2,mail")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert queue.workers() == []


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_on_a_signal_that_was_ignored_when_it_was_started(
    queue: Rowcall, folder: Path, number: signal.Signals, processes: str
) -> None:
    ignoring = (
        f"import os, signal, sys; signal.signal({int(number)}, signal.SIG_IGN);"
        " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    work = ("-m", "rowcall", "work", "app:jobs", "--processes", processes)
    with PythonProcess("-c", ignoring, *work, cwd=str(folder)) as process:
        eventually(lambda: len(queue.workers()) == int(processes))
        process.send(number)
        assert process.wait() == 0
    assert queue.workers() == []


def test_what_it_says_is_plain_logging(queue: Rowcall, folder: Path) -> None:
    with ForkedProcess("-m", "rowcall", "work", "app:jobs", cwd=str(folder)) as process:
        process.wait_for("working on")
        process.send(signal.SIGINT)
        assert process.wait() == 0
        lines = process.output.splitlines()
    assert f"working on {folder / 'queue.db'}: 2 tasks, all queues, 10 at a time" in lines[0]
    assert " INFO " in lines[1]
    assert lines[-1].endswith("stopped")


def test_lines_about_a_job_name_it_and_their_time_is_utc(queue: Rowcall, folder: Path) -> None:
    (folder / "talking.py").write_text(TALKING)
    env = {**os.environ, "TZ": "Pacific/Kiritimati"}
    with ForkedProcess("-m", "rowcall", "work", "talking:jobs", cwd=str(folder), env=env) as process:
        job = queue.enqueue("talk", max_attempts=1)
        eventually(lambda: queue.get(job.id).status == "failed")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        output = process.output
    said = next(line for line in output.splitlines() if line.endswith("about it"))
    at, _, rest = said.partition(" INFO ")
    assert rest.split("] ")[1] == f"job {job.id} talk attempt 1: about it"
    assert f"[{process.pid}]" in rest
    off = datetime.strptime(at.strip(), "%Y-%m-%d %H:%M:%S.%f%z") - datetime.now(UTC)
    assert abs(off) < timedelta(minutes=5)
    failure = next(line for line in output.splitlines() if " ERROR " in line)
    assert failure.count(f"job {job.id}") == 1
    assert "ValueError" in failure


def test_quiet_at_a_higher_log_level(queue: Rowcall, folder: Path) -> None:
    arguments = ("-m", "rowcall", "work", "app:jobs", "--log-level=error")
    with ForkedProcess(*arguments, cwd=str(folder)) as process:
        eventually(queue.workers)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert process.output == ""


def test_a_worker_stays_small_and_never_imports_what_draws_tables(queue: Rowcall, folder: Path) -> None:
    (folder / "small.py").write_text(SMALL)
    with PythonProcess("-m", "rowcall", "work", "small:jobs", cwd=str(folder)) as process:
        job = queue.enqueue("loaded")
        eventually(lambda: queue.get(job.id).status == "succeeded")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    result = queue.get(job.id).result
    assert isinstance(result, dict)
    modules = result["modules"]
    assert "rowcall" in modules
    assert [
        name for name in modules if name.split(".")[0] in ("rich", "psycopg", "prometheus_client", "opentelemetry")
    ] == []
    assert result["megabytes"] < 60


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["nowhere:jobs"], 2, "there is no module 'nowhere'"),
        (["app:nothing"], 2, "did you mean app:jobs?"),
        (["nowhere:jobs", "--processes=3"], 2, "there is no module 'nowhere'"),
        (["app:jobs", "--concurrency=0"], 2, "--concurrency must be a whole number"),
        (["app:jobs", "--concurrency=0", "--reload"], 2, "--concurrency must be a whole number"),
        (["app:jobs", "--import=nowhere"], 2, "there is no module 'nowhere'"),
        (["app:jobs", "--queues=mail=x"], 2, "--queues: 'mail=x' must be name or name=number"),
        (["app:jobs", "--queues="], 2, "--queues: a name in the list is empty; leave queues out to serve all"),
        (["app:jobs", "--queues=a,,b"], 2, "--queues: a name in the list is empty"),
        (["app:jobs", "--lease=-1"], 2, "--lease must be a duration from 0.1 s to 300 years, got -1.0"),
        (["app:jobs", "--lease=0"], 2, "--lease must be a duration from 0.1 s to 300 years, got 0.0"),
        (["app:jobs", "--processes=0"], 2, "0 is not in the range"),
        (["app:jobs", "--grace=-1"], 2, "--grace must be a duration"),
        (["lost:jobs"], 1, "does not exist"),
        (["lost:jobs", "--processes=2"], 1, "does not exist"),
        (["memory:jobs", "--processes=2"], 2, "in memory cannot be shared"),
    ],
)
def test_what_is_wrong_is_said_at_once(
    run: Run,
    app: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    words: list[str],
    code: int,
    problem: str,
) -> None:
    caplog.set_level(logging.INFO, logger="rowcall")
    (folder / "lost.py").write_text("from rowcall import Rowcall\njobs = Rowcall('sqlite:///no/such/folder/q.db')\n")
    (folder / "memory.py").write_text("from rowcall import Rowcall\njobs = Rowcall('sqlite:///:memory:')\n")
    result = run("work", *words)
    assert result.exit_code == code
    assert problem in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert caplog.messages == []


def test_an_app_without_tasks_is_warned_of(folder: Path) -> None:
    (folder / "idle.py").write_text("from rowcall import Rowcall\njobs = Rowcall('sqlite:///idle.db')\n")
    with ForkedProcess("-m", "rowcall", "work", "idle:jobs", cwd=str(folder)) as process:
        process.wait_for("idle:jobs declares no task")
        with Rowcall(folder / "idle.db") as jobs:
            eventually(jobs.workers)
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_the_installed_command_is_the_module(folder: Path) -> None:
    command = Path(sys.executable).with_name("rowcall")
    with PythonProcess(str(command), "--version", env={**os.environ}) as process:
        assert process.wait() == 0
        assert process.output.startswith("rowcall, version ")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_tables_that_it_may_not_make_are_made_with_a_command_that_names_the_app(
    run: Run, folder: Path, processes: str
) -> None:
    (folder / "other.py").write_text(
        "from rowcall import Rowcall\njobs = Rowcall('sqlite:///a.db', auto_migrate=False)"
    )
    result = run("work", "other:jobs", "--processes", processes)
    assert result.exit_code == 1
    assert result.stderr.endswith("run: rowcall migrate other:jobs (auto_migrate is off)\n")


@pytest.mark.slow
def test_processes_import_the_tasks_of_a_package_and_other_modules(queue: Rowcall, folder: Path) -> None:
    declare = "from shop.app import jobs\n@jobs.task\ndef {name}() -> str:\n    return __name__\n"
    (folder / "shop" / "mail").mkdir(parents=True)
    (folder / "shop" / "app.py").write_text((folder / "app.py").read_text())
    (folder / "shop" / "mail" / "tasks.py").write_text(declare.format(name="found"))
    (folder / "extra.py").write_text(declare.format(name="imported"))
    words = ("shop.app:jobs", "--import=extra", "--processes=2")
    with ForkedProcess("-m", "rowcall", "work", *words, cwd=str(folder)) as process:
        made = [queue.enqueue("found"), queue.enqueue("imported")]
        eventually(lambda: [queue.get(job).result for job in made] == ["shop.mail.tasks", "extra"])
        process.send(signal.SIGTERM)
        assert process.wait() == 0


RELOADED = """
import threading
from pathlib import Path
from rowcall import Rowcall

jobs = Rowcall("sqlite:///queue.db")

@jobs.task
def version() -> int:
    Path("begun").touch()
    while not Path("go").exists():
        threading.Event().wait(0.01)
    return 1
"""


@pytest.mark.slow
def test_a_change_of_the_code_replaces_the_worker_when_its_jobs_have_finished(queue: Rowcall, folder: Path) -> None:
    code = folder / "live.py"
    code.write_text(RELOADED)
    with ForkedProcess("-m", "rowcall", "work", "live:jobs", "--reload", cwd=str(folder)) as process:
        eventually(queue.workers)
        first = queue.enqueue("version")
        eventually((folder / "begun").exists)
        # each version has another size: Python takes a cached one of the same second and size for current
        code.write_text(RELOADED.replace("return 1", "return 20"))
        process.wait_for("restarting 1 worker process: live.py has changed")
        (old,) = queue.workers()
        (folder / "go").touch()
        # until it has ended, the old worker may claim
        eventually(lambda: [one for one in queue.workers() if one.pid != old.pid] and queue.get(first).result == 1)
        second = queue.enqueue("version")
        eventually(lambda: (queue.get(first).result, queue.get(second).result) == (1, 20))
        assert queue.get(first).attempt == 1
        code.write_text("def (")
        process.wait_for("importing live failed: SyntaxError")
        process.wait_for("the next one starts when a file changes")
        code.write_text(RELOADED.replace("return 1", "return 300"))
        third = queue.enqueue("version")
        eventually(lambda: queue.get(third).result == 300)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert queue.workers() == []


def test_reload_without_its_library_says_what_to_install(run: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    result = run("work", "app:jobs", "--reload")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "error: --reload needs watchfiles: pip install 'rowcall[reload]'"
