from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs
