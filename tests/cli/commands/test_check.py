"""`rowcall check` and `rowcall replay`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rowcall.app import Rowcall
from rowcall.cli.load import load
from tests.cli.conftest import Run

APP = """
from rowcall import Context, Rowcall

jobs = Rowcall("sqlite:///queue.db")

@jobs.task
def order(ctx: Context, number: int) -> str:
    print("printed by the handler")
    ctx.log.warning("logged by the handler")
    price = ctx.step("price", int, number)
    ctx.wait_for("go")
    return ctx.step("ship", lambda: str(1 // price))
"""


def declared(path: Path, text: str) -> Rowcall:
    path.write_text(text)
    return load(f"{path.stem}:jobs")


def test_check_and_replay(run: Run, folder: Path) -> None:
    jobs = declared(folder / "shop.py", APP)
    job, waiting = jobs.enqueue("order", {"number": 0}), jobs.enqueue("order", {"number": 7})
    jobs.drain()
    fits = run("check", "shop:jobs")
    assert (fits.exit_code, fits.stdout) == (0, "2 jobs checked, 2 with recorded steps: all fit\n")
    jobs.signal(job, "go")
    jobs.drain()
    jobs.close()
    number = str(job.id)
    failed = run("replay", "shop:jobs", number, "--run-steps")
    assert failed.exit_code == 1
    assert "ZeroDivisionError" in failed.stdout
    assert 'ctx.step("ship", lambda: str(1 // price))' in failed.stdout
    stopped = run("replay", "shop:jobs", str(waiting.id))
    assert stopped.stdout.endswith("job 2  order  stopped at step 2, wait 'go': it has no result\n")
    as_json = run("replay", "shop:jobs", str(waiting.id), "--json")
    assert json.loads(as_json.stdout)["stopped_at"] == {"position": 2, "kind": "wait", "name": "go"}
    assert "printed by the handler" in as_json.stderr

    declared(folder / "renamed.py", APP.replace('"price"', '"cost"')).close()
    breaks = run("check", "renamed:jobs")
    assert breaks.exit_code == 1
    assert "2 jobs checked, 2 with recorded steps: 2 would break" in breaks.stdout
    assert "STEPS:CHANGED" in breaks.stdout
    found = json.loads(run("check", "renamed:jobs", "--json").stdout)
    assert (found["checked"], found["with_steps"]) == (2, 2)
    assert [one["job_id"] for one in found["breaking"]] == [job.id, waiting.id]
    assert run("replay", "renamed:jobs", str(waiting.id)).exit_code == 1

    declared(folder / "other.py", 'from rowcall import Rowcall\njobs = Rowcall("sqlite:///queue.db")\n').close()
    assert "the app declares no task 'order'" in run("check", "other:jobs").stdout
    assert run("check", "other:jobs", "--declared").stdout == "0 jobs checked, 0 with recorded steps: all fit\n"


def test_wrong_use(run: Run, queue: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("check", "--url", "sqlite:///queue.db").exit_code == 2
    queue.stats()
    monkeypatch.setenv("ROWCALL_URL", "sqlite:///queue.db")
    for words in (("check",), ("replay", "1")):
        refused = run(*words)
        assert refused.exit_code == 2
        assert f"name the app, whose handlers are called: rowcall {words[0]} app:jobs" in refused.stderr
    job = queue.enqueue("hello", {"name": "ann"})
    refused = run("replay", "app:jobs", str(job.id))
    assert (refused.exit_code, refused.stderr) == (1, f"error: cannot replay job {job.id}: it has no recorded steps\n")
    assert run("replay", "app:jobs", "77").exit_code == 1
