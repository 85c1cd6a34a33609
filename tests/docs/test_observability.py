"""The tables of metrics, traces and logs match what a worker serves and writes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from rowcall import Rowcall
from rowcall.domain.outcome import OUTCOMES
from rowcall.observe import logs, meter, tracing
from rowcall.observe.metrics_server import DEFAULT_HOST
from tests.docs.pages import DOCS, read, section
from tests.observe.scraping import free_ports, scrape
from tests.worker.support import all_ended

PAGE = DOCS / "observability.md"
_ROW = re.compile(r"^\| `(rowcall_\w+)` \| (\w+) \| (.*?) ?\| .+ \|$", re.MULTILINE)


def test_the_table_of_metrics_is_what_a_worker_serves(tmp_path: Path) -> None:
    port = free_ports()
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.task(name="work")(lambda: None)
        jobs.enqueue("work")
        jobs.claim("by-hand", lease=0.1)
        with jobs.worker(metrics_port=port, lease=0.5):
            all_ended(jobs)
            families = list(text_string_to_metric_families(scrape(port)))
    served = {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for family in families
        if family.name.startswith("rowcall_")
    }
    told = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in _ROW.findall(read(PAGE))}
    assert told == served


def test_the_numbers_are_those_of_the_code() -> None:
    metrics = section(PAGE, "Metrics")
    assert f"first {meter.MOST_PAIRS} pairs of queue and task, and the first {meter.MOST_PAIRS} queues" in metrics
    assert f"did not answer within {meter.STALE_SECONDS:g} s" in metrics
    assert f"cached for {meter.FRESH_SECONDS:g} s" in metrics
    assert f"`{meter.OTHER}`" in metrics
    assert f'metrics_host="{DEFAULT_HOST}"' in metrics
    assert {f"`{outcome}`" for outcome in (*OUTCOMES.values(), meter.DROPPED)} <= set(re.findall(r"`\w+`", metrics))


def test_every_attribute_and_every_field_is_explained() -> None:
    attributes = set(re.findall(r'"((?:messaging|rowcall|error)\.[\w.]+)"', inspect.getsource(tracing)))
    assert len(attributes) == 13
    assert set(re.findall(r"`((?:messaging|rowcall|error)\.[\w.]+)`", section(PAGE, "Traces"))) == attributes
    assert {f"`{field}`" for field in logs.JOB_FIELDS} <= set(re.findall(r"`\w+`", section(PAGE, "Logs")))
