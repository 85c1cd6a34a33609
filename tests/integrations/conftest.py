from __future__ import annotations

from pathlib import Path

import pytest

from tests.mysql_server import ALL


@pytest.fixture(params=["sqlite", "postgresql", *(["mysql"] if ALL else [])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Rowcall's URL of a file, or of a database on a server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/app.db"
    found: str = request.getfixturevalue("postgres_url" if request.param == "postgresql" else "mysql_url")
    return found
