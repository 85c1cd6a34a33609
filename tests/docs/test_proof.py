"""The figures of `docs/proof.md` are those of the records next to it."""

from __future__ import annotations

import msgspec
import pytest

from rowcall.torture.certificate import Certificate
from tests.docs.proof_tables import PROOF, ROOT, tables


@pytest.mark.parametrize("name", tables())
def test_the_page_has_the_table(name: str) -> None:
    page = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")
    assert "\n".join(tables()[name]) in page, "`python -m tests.docs.proof_tables` prints the tables of docs/proof.md"


def test_each_certificate_has_passed() -> None:
    paths = sorted((PROOF / "torture").glob("*.json"))
    certificates = [msgspec.json.decode(path.read_bytes(), type=Certificate) for path in paths]
    assert {(one.verdict, len(one.findings)) for one in certificates} == {("passed", 0)}
    assert {one.versions.database.split()[0] for one in certificates} == {"SQLite", "PostgreSQL", "MariaDB"}
