"""`rowcall signal`, and the steps in `rowcall show`."""

from __future__ import annotations

import json

from rowcall import Context, Rowcall
from tests.cli.conftest import Run


def test_signal_and_show(run: Run, queue: Rowcall) -> None:
    @queue.task
    def sign_up(ctx: Context) -> object:
        ctx.step("customer", dict, id=7)
        return ctx.wait_for("confirmed")

    job = sign_up.enqueue()
    queue.drain()
    number = str(job.id)
    shown = run("show", "app:jobs", number).stdout
    assert "it waits for signal 'confirmed'" in shown
    assert "wait confirmed" in shown
    assert '{"id": 7}' in shown
    sent = run("signal", "app:jobs", number, "confirmed", '{"by": "ann"}', "--json")
    assert json.loads(sent.stdout) == {"job_id": job.id, "name": "confirmed", "value": {"by": "ann"}}
    assert run("signal", "app:jobs", number, "other").stdout == f"job {job.id}: sent signal other\n"
    queue.drain()
    steps = json.loads(run("show", "app:jobs", number, "--json").stdout)["steps"]
    assert [(step["name"], step["status"], step["result"]) for step in steps] == [
        ("customer", "finished", {"id": 7}),
        ("confirmed", "finished", {"by": "ann"}),
    ]
    finished = run("signal", "app:jobs", number, "confirmed")
    assert (finished.exit_code, finished.stderr) == (1, f"error: job {job.id} has already succeeded\n")
    for words in ((), (number,), ("x", "go"), (number, "go", "{"), (number, "go", "1", "2")):
        assert run("signal", "app:jobs", *words).exit_code == 2
