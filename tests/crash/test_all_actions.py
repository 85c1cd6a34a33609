"""A short storm of all actions. `python -m tests.crash.all_actions` runs a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.all_actions import storm
from tests.mysql_server import ALL

JOBS = 2000


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("database", ["sqlite", "postgres", *(["mysql"] if ALL else [])])
def test_nothing_is_lost_settled_twice_or_left_over(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/app.db" if database == "sqlite" else request.getfixturevalue(f"{database}_url")
    assert storm(url, tmp_path, JOBS, seed=1) == []
