"""Queues on both databases, whose payloads are large above 2 KiB and too large above 64 KiB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rowcall import Rowcall

LARGE, TOO_LARGE = 2048, 65_536
Open = Callable[..., Rowcall]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def open_queue(url: str) -> Iterator[Open]:
    with ExitStack() as stack:

        def opened(**options: object) -> Rowcall:
            sizes = {"blob_threshold": LARGE, "payload_limit": TOO_LARGE}
            return stack.enter_context(Rowcall(url, **{**sizes, **options}))  # type: ignore[arg-type]

        yield opened


@pytest.fixture
def jobs(open_queue: Open) -> Rowcall:
    return open_queue()
