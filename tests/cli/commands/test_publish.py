from __future__ import annotations

import json
from pathlib import Path

from rowcall import Rowcall
from tests.cli.conftest import APP, Run

ON_EVENTS = (
    APP
    + """
@jobs.task(on="order.paid")
def receipt(order_id: int) -> None: ...

@jobs.task(on=["order.paid", "order.refunded"])
def stock(order_id: int) -> None: ...
"""
)


def test_publish(run: Run, app: Path, queue: Rowcall) -> None:
    app.write_text(ON_EVENTS)
    result = run("publish", "app:jobs", "order.paid", '{"order_id": 7}', "--key", "order-7", "--tag", "shop")
    assert result.stdout == "job 1 receipt is pending\njob 2 stock is pending\n"
    assert queue.get(1).tags == ("shop",)
    again = run("publish", "app:jobs", "order.paid", '{"order_id": 7}', "--key", "order-7")
    assert again.stdout.splitlines() == [
        "job 1 receipt is pending, and existed already",
        "job 2 stock is pending, and existed already",
    ]
    words = ("order.refunded", '{"order_id": 7}', "--delay", "1h", "--json")
    later = json.loads(run("publish", "app:jobs", *words).stdout)
    assert [(job["type"], job["status"], job["duplicate"]) for job in later["jobs"]] == [("stock", "scheduled", False)]


def test_publish_refuses(run: Run, app: Path, queue: Rowcall) -> None:
    app.write_text(ON_EVENTS)
    for words, code, said in (
        (["order.payed", "{}"], 1, "unknown event 'order.payed' (did you mean 'order.paid'?)"),
        (["order.paid", "{}"], 2, "receipt: missing argument 'order_id'"),
        (["order.paid", "7"], 2, "'7' is not a JSON object"),
        ([], 2, "give APP, an event, and its arguments as one JSON object"),
        (["order.paid", '{"order_id": 7}', "--delay", "1", "--run-at", "2030-01-01T00:00Z"], 2, "cannot be combined"),
    ):
        result = run("publish", "app:jobs", *words)
        assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert queue.stats().total == 0
