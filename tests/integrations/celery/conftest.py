from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rowcall.compat.celery import Celery
from rowcall.integrations.celery import app as celery_app
from rowcall.integrations.celery import current

BEFORE = Path(__file__).with_name("before.txt")
IMPORTS = re.compile(r"^from celery(\.\w+)* import ", re.MULTILINE)


@pytest.fixture(autouse=True)
def no_other_app() -> Iterator[None]:
    yield
    celery_app._shared.clear()
    celery_app._apps.clear()
    current._apps.clear()


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    file = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("ROWCALL_URL", request.getfixturevalue("postgres_url") if request.param != "sqlite" else file)
    moved = IMPORTS.sub("from rowcall.compat.celery import ", BEFORE.read_text(encoding="utf-8"))
    assert "from celery" not in moved
    names: dict[str, object] = {"__name__": "shop"}
    exec(compile(moved, "shop.py", "exec"), names)
    found = SimpleNamespace(**names)
    with found.app.jobs:
        yield found


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("app", broker="sqlite:///:memory:") as app:
        yield app
