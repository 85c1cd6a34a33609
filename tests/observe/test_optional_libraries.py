"""Optional libraries that are missing, or installed but not asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.testing.process import PythonProcess

PLAIN = """
import sys
from rowcall import Rowcall
with Rowcall("sqlite:///queue.db") as jobs:
    jobs.task(name="work")(lambda: None)
    jobs.enqueue("work")
    assert jobs.drain().succeeded == 1
sys.exit(any(name.split(".")[0] in ("prometheus_client", "opentelemetry") for name in sys.modules))
"""


def test_nothing_is_imported_that_was_not_asked_for(tmp_path: Path) -> None:
    with PythonProcess("-c", PLAIN, cwd=str(tmp_path)) as process:
        assert process.wait() == 0, process.output


def test_a_missing_library_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("prometheus_client", "opentelemetry"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "rowcall.observe.tracing", raising=False)
    jobs = Rowcall(tmp_path / "queue.db")
    with pytest.raises(InvalidOption, match=r"metrics_port needs .*: pip install 'rowcall\[metrics\]'"):
        jobs.worker(metrics_port=9464)
    with pytest.raises(InvalidOption, match=r"tracing needs opentelemetry: pip install 'rowcall\[otel\]'"):
        Rowcall(tmp_path / "queue.db", tracing=True)


def test_an_import_that_fails_inside_a_library_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "rowcall.observe.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(ModuleNotFoundError, match="msgspec"):
        Rowcall(tmp_path / "queue.db", tracing=True)


def test_tracing_is_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="tracing must be True or False, got 'yes'"):
        Rowcall(tmp_path / "queue.db", tracing="yes")  # type: ignore[arg-type]
