from __future__ import annotations

from rowcall import Rowcall
from tests.cli.answers import answer_of, rows_of
from tests.cli.conftest import Run


def test_retention_shows_rules_and_the_next_prune(run: Run, old: Rowcall) -> None:
    report = answer_of(run, "retention", "app:jobs")
    assert (report["jobs"], report["prunable"]) == (16, 5 + 4 + 3)
    kept = {(one["status"], one["queue"]): one for one in report["kept"]}
    assert list(kept["succeeded", "mail"]) == ["status", "queue", "type", "keep", "jobs", "prunable", "oldest_at"]
    assert (kept["succeeded", "mail"]["keep"], kept["succeeded", "mail"]["prunable"]) == (None, 0)
    assert (kept["succeeded", "default"]["keep"], kept["succeeded", "default"]["prunable"]) == (3600.0, 5)
    assert kept["failed", "mail"]["keep"] == 90 * 86_400
    rows = rows_of(run, "retention", "app:jobs")
    assert " ".join(rows[0]).startswith("16 finished jobs kept; the next prune deletes 12; the database is ")
    assert ["succeeded", "7", "5"] in rows
    assert ["succeeded", "default", "hello", "1", "h", "6", "5", "100", "d", "ago"] in rows
    assert ["succeeded", "mail", "hello", "forever", "1", "0", "100", "d", "ago"] in rows
