from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.slow
@pytest.mark.usefixtures("small_bench")
def test_it_measures_and_leaves_nothing_behind(run: Run, folder: Path) -> None:
    measured = folder / "a %20?b"
    measured.mkdir()
    result = run("bench", "--json", "--folder", str(measured))
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert list(figures) == [
        *("enqueue_per_second", "enqueue_many_per_second", "drain_async_per_second", "drain_threads_per_second"),
        *("pick_up_p50_ms", "pick_up_p99_ms", "seconds"),
    ]
    assert all(figure > 0 for figure in figures.values())
    assert figures["pick_up_p50_ms"] <= figures["pick_up_p99_ms"]
    assert list(measured.iterdir()) == []
