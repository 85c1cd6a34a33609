"""`jobs.rekey()`, async and in batches. The conformance kit has its behaviour on each database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from rowcall import Encryption, Rekeyed, Rowcall
from rowcall.operations import rekey
from rowcall.store.control import rekey as plans
from rowcall.store.dialect import Dialect
from rowcall.store.queries.control import Texts
from rowcall.store.statement import Plan

OLD, NEW = "o" * 43, "n" * 43


def test_rows_are_encrypted_in_batches_and_an_interrupted_run_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rekey, "ROWS_AT_ONCE", 3)
    with Rowcall(tmp_path / "app.db", encrypt=Encryption(keys=[OLD])) as jobs:
        for number in range(10):
            jobs.enqueue("work", {"number": number})
    written, rewrite = 0, plans.rewrite_jobs

    def interrupted(dialect: Dialect, changes: Sequence[tuple[Texts, Texts]]) -> Plan[int]:
        nonlocal written
        written += 1
        if written == 3:
            raise KeyboardInterrupt
        return rewrite(dialect, changes)

    with Rowcall(tmp_path / "app.db", encrypt=Encryption(keys=[NEW, OLD])) as jobs:
        with monkeypatch.context() as patched:
            patched.setattr(plans, "rewrite_jobs", interrupted)
            with pytest.raises(KeyboardInterrupt):
                jobs.rekey()
        assert asyncio.run(jobs.arekey()) == Rekeyed(checked=10, rekeyed=4, unreadable=0)
    with Rowcall(tmp_path / "app.db", encrypt=Encryption(keys=[NEW])) as jobs:
        assert sorted(str(job.payload["number"]) for job in jobs.list().jobs) == [str(number) for number in range(10)]
