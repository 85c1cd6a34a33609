"""The script of docs/sqlite-to-postgresql.md: what it moves, what it leaves, and that it can be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from rowcall import Backoff, Job, Rowcall
from tests.docs.pages import DOCS, blocks

Move = Callable[[Rowcall, Rowcall], int]


@pytest.fixture
def move() -> Move:
    namespace: dict[str, object] = {}
    (script,) = [block for block in blocks(DOCS / "sqlite-to-postgresql.md") if block.file_name == "move.py"]
    exec(script.text, namespace)
    return cast("Move", namespace["move"])


def test_jobs_that_wait_alone_are_moved_once(move: Move, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Rowcall(tmp_path / "old.db", blob_threshold=1024) as old, Rowcall(tmp_path / "new.db") as new:

        @old.task(retry=Backoff.constant(3600))
        def broken(text: str) -> None:
            raise ValueError(text[:9])

        retried = broken.enqueue("x" * 2000)
        old.drain()
        plain = broken.using(delay=60, expires_in=90, timeout=5, retry=Backoff.linear(7), queue="mail").enqueue("y")
        chain = old.start_chain([broken.bind("1"), broken.bind("2")])
        blocker = broken.enqueue("first")
        broken.using(after=blocker).enqueue("second")

        def interrupted(job: Job) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(old, "delete", interrupted)
            with pytest.raises(KeyboardInterrupt):
                move(old, new)
        assert len(new.list()) == 1
        assert move(old, new) == 2

        assert old.stats().total == 4  # the chain, the blocker, and the job behind it
        assert old.chain(chain.id).length == 2
        one, other = new.list(order="oldest").jobs
        assert new.get(one).payload == {"text": "x" * 2000}
        assert (one.status, one.max_attempts) == ("scheduled", retried.max_attempts - 1)
        assert (other.run_at, other.expires_at, other.timeout) == (plain.run_at, plain.expires_at, 5.0)
        assert (other.queue, other.retry, other.max_attempts) == ("mail", plain.retry, plain.max_attempts)
