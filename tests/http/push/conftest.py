from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Backoff, Rowcall, TaskDefaults
from tests.http.push.target import TargetServer, options, serving


@pytest.fixture
def target() -> Iterator[TargetServer]:
    with serving() as server:
        yield server


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    defaults = TaskDefaults(retry=Backoff.constant(3600))
    with Rowcall(tmp_path / "app.db", push=options(), defaults=defaults) as found:
        yield found
