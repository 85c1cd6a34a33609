"""Handlers in child processes: how they end, and what becomes of the processes."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Backoff, InvalidOption, Job, Rowcall
from rowcall.app import queue_of
from rowcall.testing import eventually
from rowcall.testing.process import PythonProcess
from rowcall.worker.isolation import child_process
from rowcall.worker.lanes.dispatcher import Dispatcher
from tests.worker import isolated
from tests.worker.support import Site, claimed, comes_to, ended, outcomes


def enqueue(jobs: Rowcall, function: Callable[..., object], **arguments: object) -> Job:
    name = function.__name__
    if name not in queue_of(jobs).tasks:
        jobs.task(isolation="process", max_attempts=1, retry=Backoff.constant(600))(function)
    return jobs.enqueue(name, arguments)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def started(site: Site, name: str) -> int:
    """The process in which a handler that holds has begun."""
    eventually(lambda: any(line.startswith(f"start {name} ") for line in site.lines))
    return int(next(line for line in site.lines if line.startswith(f"start {name} ")).split()[2])


# where they run


def test_a_child_of_the_worker_serves_one_job_after_the_other(jobs: Rowcall) -> None:
    made = [enqueue(jobs, isolated.where, number=number) for number in range(5)]
    assert jobs.drain(concurrency=1).succeeded == 5
    found = [jobs.get(job.id).result for job in made]
    assert isinstance(found[0], list)
    pid = found[0][0]
    assert pid != os.getpid()
    assert found == [[pid, os.getpid(), served] for served in range(1, 6)]
    assert is_gone(pid)


def test_an_async_handler_runs_there_too(jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.where_async)
    jobs.drain(concurrency=1)
    assert jobs.get(job.id).result not in (None, os.getpid())


def test_it_knows_its_job_and_is_heard(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, logger="rowcall")
    jobs.task(isolation="process", tags=["x"])(isolated.say)
    job = jobs.enqueue("say", {"words": ["all"]})
    jobs.drain(concurrency=1)
    assert jobs.get(job.id).result == [job.id, 1, ["x"], True, {"words": ["all"]}]
    (record,) = (record for record in caplog.records if record.getMessage() == "said all")
    assert (record.levelname, vars(record)["shade"], vars(record)["job_id"]) == ("WARNING", "red", job.id)
    output = capfd.readouterr()
    assert "printed by the handler" in output.out
    assert "and to stderr" in output.err


# how they end


def test_an_end_counts_as_it_does_in_a_thread(jobs: Rowcall) -> None:
    expected: dict[str, tuple[str, str | None, str | None]] = {
        "retry": ("failed", "RETRY:REQUESTED", "later"),
        "snooze": ("scheduled", None, None),
        "fail": ("failed", "A:B", "said so"),
        "cancel": ("cancelled", "CANCELLED:BY_HANDLER", "not needed"),
        "busy": ("failed", "INTERNAL:TooBusy", "busy for 42.0 s"),
        "os": ("failed", "OS:ENOENT", "[Errno 2] gone"),
        "exit": ("failed", "INTERNAL:SystemExit", "3"),
        "no json": ("failed", "INVALID_OUTPUT:NOT_JSON", None),
        "large": ("succeeded", None, None),
    }
    made = {way: enqueue(jobs, isolated.end_as, way=way) for way in expected}
    jobs.drain(concurrency=1)
    for way, (status, code, detail) in expected.items():
        found = jobs.get(made[way].id)
        assert (way, found.status, found.error_code) == (way, status, code)
        if detail is not None:
            assert found.error_detail == detail
        if way in ("fail", "busy", "os", "exit"):
            assert "in end_as" in (jobs.attempts(found.id)[0].traceback or "")
    assert jobs.get(made["large"].id).result == "x" * 300_000


def test_policies_and_codes_of_the_app_see_the_error_and_its_attributes(jobs: Rowcall) -> None:
    seen: list[object] = []

    def after(attempt: int, error: BaseException) -> float:
        seen.append((attempt, type(error), getattr(error, "after", None)))
        return 1000.0

    jobs.error_code(isolated.TooBusy, "UPSTREAM:BUSY")
    jobs.task(isolation="process", retry=after)(isolated.end_as)
    job = jobs.enqueue("end_as", {"way": "busy"})
    jobs.drain(concurrency=1)
    assert seen == [(1, isolated.TooBusy, 42.0)]
    assert (jobs.get(job.id).status, jobs.get(job.id).error_code) == ("scheduled", "UPSTREAM:BUSY")


def test_a_chain_continues_from_a_child_and_reads_what_came_before(jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.go_on, by_name=True)
    assert jobs.drain().succeeded == 2
    assert jobs.get(job.id).result == "refused: continue"
    (last,) = (one for one in jobs.list(type="go_on").jobs if one.id != job.id)
    assert (last.chain_id, last.chain_index, last.result) == (job.id, 1, ["refused: continue", []])


def test_secrets_are_scrubbed_before_they_are_stored(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", scrub=lambda text: text.replace("said so", "***")) as jobs:
        job = enqueue(jobs, isolated.end_as, way="fail")
        jobs.drain(concurrency=1)
        assert jobs.get(job.id).error_detail == "***"
        assert "said so" not in (jobs.attempts(job.id)[0].traceback or "")


def test_a_payload_that_does_not_fit_is_reported_as_elsewhere(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.where, number=1)
    with closing(sqlite3.connect(site.database)) as connection, connection:
        connection.execute('update rowcall_job set payload = \'{"number": "one"}\'')
    jobs.drain(concurrency=1)
    assert jobs.get(job.id).error_code == "INVALID_INPUT:SCHEMA_MISMATCH"
    assert "number" in (jobs.get(job.id).error_detail or "")


def test_a_child_that_dies_is_a_failed_attempt_and_the_next_job_has_another(jobs: Rowcall) -> None:
    ways = {"exit": "exit code 7", "kill": "SIGKILL", "segfault": "SIGSEGV"}
    made = {way: enqueue(jobs, isolated.die, way=way) for way in ways}
    after = enqueue(jobs, isolated.say, words=["y" * 300_000])
    jobs.drain(concurrency=1)
    for way, how in ways.items():
        failed = jobs.get(made[way].id)
        assert (failed.status, failed.error_code) == ("failed", "PROCESS:DIED")
        assert how in (failed.error_detail or "")
    assert jobs.get(after.id).status == "succeeded"


def test_what_a_handler_leaves_behind_goes_with_its_child(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.start_a_sleeper, folder=str(site.folder))
    jobs.drain(concurrency=1)
    assert jobs.get(job.id).error_code == "PROCESS:DIED"
    eventually(lambda: is_gone(int(site.lines[0].split()[1])))


def test_a_process_that_outlives_its_child_does_not_keep_the_job(
    site: Site, jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    job = enqueue(jobs, isolated.leave_a_daemon, folder=str(site.folder))
    with jobs.worker(concurrency=1, grace=0):
        try:
            done = ended(jobs, job)
        finally:
            site.open("daemon")
    assert (done.error_code, "exit code 7" in (done.error_detail or "")) == ("PROCESS:DIED", True)
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("said ")]
    assert said == [f"said {number}" for number in range(100)]


def test_a_handler_that_closes_what_is_not_its_own_ends_its_process(jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.close_everything)
    with jobs.worker(concurrency=1, grace=0):
        assert ended(jobs, job).error_code == "PROCESS:DIED"


def test_what_a_copy_of_a_child_says_is_not_about_the_next_job(site: Site, jobs: Rowcall) -> None:
    first = enqueue(jobs, isolated.return_twice, folder=str(site.folder))
    with jobs.worker(concurrency=1, grace=0):
        copy = ended(jobs, first).result
        assert isinstance(copy, int)
        assert copy > 0
        second = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x")
        started(site, "x")
        site.open("copy")
        eventually(lambda: is_gone(copy))
        site.open("x")
        done = ended(jobs, second)
    assert (done.result, done.chain_id) == ("x", None)


# memory


@pytest.mark.parametrize("killed", [False, True], ids=["refused", "killed"])
def test_more_memory_than_allowed_ends_the_attempt_and_not_the_worker(jobs: Rowcall, killed: bool) -> None:
    jobs.task(isolation="process", memory_limit="128MB", max_attempts=1)(isolated.eat)
    greedy = jobs.enqueue("eat", {"megabytes": 110 if killed else 500, "then_be_killed": killed})
    modest = jobs.enqueue("eat", {"megabytes": 5})
    jobs.drain(concurrency=1)
    assert (jobs.get(greedy.id).status, jobs.get(greedy.id).error_code) == ("failed", "RESOURCE:OUT_OF_MEMORY")
    assert jobs.get(modest.id).result == 5


# being ended


@pytest.mark.parametrize("stubborn", [False, True], ids=["heeds SIGTERM", "ignores SIGTERM"])
def test_a_timeout_ends_the_process_and_frees_the_slot(
    site: Site, jobs: Rowcall, stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stubborn:
        monkeypatch.setattr(child_process, "GRACE_SECONDS", 0.1)
    jobs.task(isolation="process", max_attempts=1)(isolated.hold)
    job = jobs.enqueue("hold", {"folder": str(site.folder), "name": "x", "stubborn": stubborn}, timeout=1.0)
    after = enqueue(jobs, isolated.where)
    with jobs.worker(concurrency=1) as worker:
        assert ended(jobs, job).error_code == "TIMEOUT:HANDLER"
        assert ended(jobs, after).status == "succeeded"
        assert not worker.exhausted
        eventually(lambda: is_gone(started(site, "x")))
    assert ("end x" in site.lines) is not stubborn


def test_a_job_that_is_cancelled_by_hand_is_over_with_its_process(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x")
    with jobs.worker():
        pid = started(site, "x")
        jobs.cancel(job.id, "not needed")
        cancelled = ended(jobs, job)
        assert is_gone(pid)
    assert (cancelled.status, cancelled.error_detail) == ("cancelled", "not needed")


SLOW_TO_IMPORT = """
import sys
import threading
from pathlib import Path

if "rowcall.worker.isolation.child" in sys.orig_argv:
    while not (Path(__file__).parent / "import.open").exists():
        threading.Event().wait(0.01)


def late() -> str:
    return "imported"
"""


def test_a_job_that_waits_for_its_process_is_cancelled_at_once(
    site: Site, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.folder / "slow_to_import.py").write_text(SLOW_TO_IMPORT)
    monkeypatch.syspath_prepend(site.folder)
    late = importlib.import_module("slow_to_import").late
    job, after = enqueue(jobs, late), enqueue(jobs, late)
    with jobs.worker(concurrency=1, grace=0):
        try:
            comes_to(jobs, job, "running")
            jobs.cancel(job.id, "not needed")
            cancelled = ended(jobs, job)
        finally:
            site.open("import")
        assert ended(jobs, after).result == "imported"
    assert (cancelled.status, cancelled.error_detail) == ("cancelled", "not needed")


def test_a_child_that_dies_while_it_is_idle_costs_no_attempt(jobs: Rowcall) -> None:
    for _ in range(2):
        enqueue(jobs, isolated.where_async)
    dispatcher = Dispatcher(1, lambda: None, queue_of(jobs).clock, None, tasks=queue_of(jobs).tasks)
    pids = []
    for run in claimed(jobs, 2):
        dispatcher.accept([run], [])
        eventually(lambda: dispatcher.has_ended)
        dispatcher.pop_ended()
        assert run.transition is not None
        assert run.transition.result is not None
        pids.append(int(run.transition.result))
        os.kill(pids[-1], signal.SIGKILL)
    assert pids[0] != pids[1]
    dispatcher.close()


def test_a_stopping_worker_lets_them_finish(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x")
    with jobs.worker():
        started(site, "x")
        eventually(lambda: jobs.get(job.id).progress == 0.5)
        site.open("x")
    assert jobs.get(job.id).result == "x"


def test_after_the_grace_period_they_are_terminated_and_their_jobs_released(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x")
    with jobs.worker(grace=0):
        pid = started(site, "x")
    assert is_gone(pid)
    assert (jobs.get(job.id).status, jobs.get(job.id).attempt) == ("pending", 0)
    assert outcomes(jobs, job) == ["released"]


# dying with the worker

APP = """
from rowcall import Rowcall
from tests.worker import isolated

jobs = Rowcall("sqlite:///queue.db")
hold = jobs.task(isolation="process", max_attempts=1)(isolated.hold)
"""


def run_app(site: Site, text: str, *arguments: str) -> PythonProcess:
    (site.folder / "app.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return PythonProcess(*arguments, cwd=str(site.folder), env=env)


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_they_die_with_their_worker(site: Site, jobs: Rowcall, number: signal.Signals) -> None:
    job = jobs.enqueue("hold", {"folder": str(site.folder), "name": "x"})
    with run_app(site, APP, "-m", "rowcall", "work", "app:jobs", "--grace", "0") as worker:
        pid = started(site, "x")
        assert pid != worker.pid
        worker.send(number)
        eventually(lambda: is_gone(pid))
        eventually(lambda: not worker.alive)
        if number is signal.SIGTERM:
            assert comes_to(jobs, job, "pending").attempt == 0


SCRIPT = """
import os
from rowcall import Context, Rowcall

jobs = Rowcall("sqlite:///queue.db")


class Odd(Exception):
    pass


jobs.error_code(Odd, "ODD:ONE")


def after(attempt: int, error: BaseException) -> float:
    print("the policy got its own exception class:", isinstance(error, Odd))
    return 0.0


@jobs.task(isolation="process", max_attempts=2, retry=after)
def odd() -> int:
    raise Odd("at " + str(os.getppid()))


@jobs.task(isolation="process")
def parent() -> int:
    return os.getppid()


@jobs.task(isolation="process")
def complete(ctx: Context) -> None:
    import sqlite3

    ctx.continue_with(parent)

    connection = sqlite3.connect("queue.db")
    with connection:
        ctx.complete({"done": os.getpid()}, connection=connection)
    connection.close()


if __name__ == "__main__":
    made = [task.enqueue() for task in (odd, parent, complete)]
if GUARD:
    jobs.drain(concurrency=1)
if __name__ == "__main__":
    for job in made:
        print(jobs.get(job.id).status, jobs.get(job.id).error_code, jobs.get(job.id).result)
    print([step.result for step in jobs.list(type="parent").jobs])
"""


@pytest.mark.parametrize("started", [["app.py"], ["-m", "app"]], ids=" ".join)
def test_the_tasks_of_a_script_are_found_in_its_file(site: Site, started: list[str]) -> None:
    with run_app(site, SCRIPT.replace("GUARD", "__name__ == '__main__'"), *started) as script:
        assert script.wait() == 0
        lines = script.output.splitlines()
    assert lines[-4:-2] == ["failed ODD:ONE None", f"succeeded None {script.pid}"]
    assert lines[-2].startswith("succeeded None {'done': ")
    assert lines[-1] == f"[{script.pid}, {script.pid}]"
    assert "the policy got its own exception class: True" in lines


def test_a_script_without_a_guard_gets_an_error_and_starts_no_workers_without_end(site: Site) -> None:
    with run_app(site, SCRIPT.replace("GUARD", "True"), "app.py") as script:
        assert script.wait() == 0
        assert "__name__" in script.output


# what is refused


def test_a_function_that_no_child_could_find_is_refused(jobs: Rowcall) -> None:
    def local() -> None: ...

    with pytest.raises(InvalidOption, match="define it at the top of a module"):
        jobs.task(isolation="process")(local)
    with pytest.raises(InvalidOption, match="top of a module"):
        jobs.task(isolation="process", name="nameless")(lambda: None)
    assert queue_of(jobs).tasks == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isolation": "fork"}, "isolation must be thread or process, got 'fork'"),
        ({"memory_limit": "1GB"}, "memory_limit needs isolation='process'"),
        ({"memory_limit": "1GB", "isolation": "thread"}, "memory_limit needs isolation='process'"),
        ({"memory_limit": "much", "isolation": "process"}, "memory_limit must be a size such as '512MB'"),
        ({"memory_limit": True, "isolation": "process"}, "memory_limit must be a size such as '512MB'"),
        (
            {"memory_limit": 1024, "isolation": "process"},
            "number of bytes, at least 64MB, got 1024",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(jobs: Rowcall, options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        jobs.task(**options)  # type: ignore[call-overload]
    assert said in str(refused.value)


def test_a_queue_without_such_tasks_starts_no_process(jobs: Rowcall) -> None:
    @jobs.task(isolation="thread")
    def in_a_thread() -> int:
        return os.getpid()

    job = in_a_thread.enqueue()
    with jobs.worker():
        assert ended(jobs, job).result == os.getpid()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("rowcall-nursery")]


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_job_that_is_cancelled_ends_with_its_process(site: Site, jobs: Rowcall, stubborn: bool) -> None:
    job = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x", stubborn=stubborn)
    with jobs.worker():
        pid = started(site, "x")
        jobs.cancel(job.id, "enough")
        done = ended(jobs, job)
        assert (done.status, done.error_code, done.error_detail) == ("cancelled", "CANCELLED:BY_HAND", "enough")
        eventually(lambda: is_gone(pid))
