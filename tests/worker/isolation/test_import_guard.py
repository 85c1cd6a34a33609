"""Scripts whose tasks run in child processes, which import them: with a guard and without one."""

from __future__ import annotations

import pytest

from tests.worker.isolation.support import run_app
from tests.worker.support import Site

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


@jobs.task(isolation="process")
def wrong(ctx: Context) -> int:
    import sqlite3

    with sqlite3.connect("queue.db") as connection:
        ctx.complete("not a number", connection=connection)
    return 0


if __name__ == "__main__":
    made = [task.enqueue() for task in (odd, parent, complete, wrong)]
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
    assert lines[-5:-3] == ["failed ODD:ONE None", f"succeeded None {script.pid}"]
    assert lines[-3].startswith("succeeded None {'done': ")
    assert lines[-2] == "failed INVALID_OUTPUT:WRONG_TYPE None"
    assert lines[-1] == f"[{script.pid}, {script.pid}]"
    assert "the policy got its own exception class: True" in lines


def test_a_script_without_a_guard_gets_an_error_and_starts_no_workers_without_end(site: Site) -> None:
    with run_app(site, SCRIPT.replace("GUARD", "True"), "app.py") as script:
        assert script.wait() == 0
        assert "__name__" in script.output
