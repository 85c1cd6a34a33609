"""The demo, as `make demo` runs it in a pipe, and on a terminal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import tempfile
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest

from rowcall.cli.demo.demo_tasks import Demo
from rowcall.cli.demo.report import Report, report_of
from rowcall.cli.demo.run import DemoProgress, view
from rowcall.cli.main import main
from rowcall.cli.target import url_of
from tests.support import PythonProcess


@pytest.mark.slow
@pytest.mark.crash
def test_it_kills_a_worker_loses_nothing_and_keeps_the_dashboard(folder: Path) -> None:
    env = {**os.environ, "TMPDIR": str(folder), "ROWCALL_URL": "of-no-use://here"}
    with PythonProcess("-m", "rowcall", "demo", "--keep", "--port", "0", env=env) as process:
        process.wait_for("/demo.db at http://", within=30)
        address = process.output.split("/demo.db at ")[1].split()[0]
        with urlopen(f"{address}api/jobs?queue=slow&limit=1", timeout=10) as answer:
            assert json.load(answer)["jobs"][0]["status"] == "succeeded"
        process.send(signal.SIGINT)
        assert process.wait(within=10) == 130, process.output
        output = process.output
    lines = output.splitlines()
    assert lines[0] == "enqueued 4,000 jobs; starting 2 worker processes"
    assert "(SIGKILL)" in output
    assert "4,000 of 4,000 done" in output
    total = next(line.split() for line in lines if line.startswith("all"))
    enqueued, attempts, retried, recovered, succeeded, lost = (int(word.replace(",", "")) for word in total[1:])
    assert (enqueued, succeeded, lost) == (4000, 4000, 0)
    assert recovered > 0
    assert 600 - recovered <= retried <= 600  # an attempt that was lost counts as a failed one
    assert attempts == 4000 + retried + recovered
    assert "0 lost, in " in output
    seconds = float(output.split("0 lost, in ")[1].split()[0])
    assert seconds < 20
    assert list(folder.iterdir()) == []


def test_it_ends_with_the_command_and_the_link_of_the_dashboard(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo itself is a short one here: one job."""

    def short(path: Path, log_path: Path, *, quiet: bool) -> Report:
        demo = Demo(url_of(path))
        with demo.jobs as jobs:
            demo.quick.enqueue(1)
            jobs.drain()
            return report_of(jobs, {"quick": 1}, None, 1.0)

    monkeypatch.setattr("rowcall.cli.commands.demo.run", short)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for options in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            main(["demo", *options])
        assert ended.value.code == 0
    [kept] = folder.iterdir()  # --json has removed its own
    *_, command, link = capsys.readouterr().out.partition("{")[0].splitlines()
    assert link == "and open http://127.0.0.1:8642/"
    assert str(kept / "demo.db") in command
    with PythonProcess("-m", "rowcall", *shlex.split(command)[-3:], "--port", "0") as process:
        process.wait_for("/demo.db at http://")
        address = process.output.split("/demo.db at ")[1].split()[0]
        with urlopen(f"{address}api/jobs", timeout=10) as answer:
            assert json.load(answer)["jobs"][0]["status"] == "succeeded"


def test_the_report_counts_from_the_rows(folder: Path) -> None:
    demo = Demo(f"sqlite:///{folder / 'demo.db'}")
    with demo.jobs as jobs:
        demo.quick.enqueue_many({"number": number} for number in range(3))
        demo.delayed.using(delay=3600).enqueue(1)
        claimed = jobs.claim("worker-1", limit=1)[0]
        jobs.fail(claimed, "TEST:BROKEN")
        assert jobs.drain().succeeded == 2
        report = report_of(jobs, {"quick": 3, "delayed": 1}, None, 1.0)
    assert json.loads(msgspec.json.encode(report)) == {
        "tasks": [
            {"task": "quick", "enqueued": 3, "succeeded": 2, "attempts": 3, "retried": 0, "recovered": 0, "lost": 1},
            {"task": "delayed", "enqueued": 1, "succeeded": 0, "attempts": 0, "retried": 0, "recovered": 0, "lost": 1},
        ],
        "enqueued": 4,
        "lost": 2,
        "killed_pid": None,
        "seconds": 1.0,
    }


def progress(seconds: float, done: int, news: list[str]) -> DemoProgress:
    return DemoProgress(seconds=seconds, enqueued={"quick": 4}, done={"quick": done}, running=1, workers=1, events=news)


def test_a_pipe_gets_a_line_per_second_and_each_event_once(capsys: pytest.CaptureFixture[str]) -> None:
    with view(quiet=False) as show:
        show(progress(0.0, 0, ["begun"]))
        show(progress(0.5, 1, ["begun"]))
        show(progress(1.0, 2, ["begun", "killed"]))
        show(progress(1.1, 4, ["begun", "killed"]))
    assert capsys.readouterr().out.splitlines() == [
        "begun",
        " <1 ms       0 of 4 done,   1 running, 1 worker",
        "killed",
        "   1 s       2 of 4 done,   1 running, 1 worker",
        " 1.1 s       4 of 4 done,   1 running, 1 worker",
    ]


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with view(quiet=True) as show:
        show(progress(0.0, 0, ["begun"]))
    assert capsys.readouterr().out == ""
