"""The figures of `docs/proof.md` are those of the records next to it."""

from __future__ import annotations

import json

import pytest

from tests.docs.proof_tables import PROOF, ROOT, tables


@pytest.mark.parametrize("name", tables())
def test_the_page_has_the_table(name: str) -> None:
    page = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")
    assert "\n".join(tables()[name]) in page, "`python -m tests.docs.proof_tables` prints the tables of docs/proof.md"


def test_each_certificate_has_passed() -> None:
    certificates = [json.loads(path.read_text()) for path in sorted((PROOF / "torture").glob("*.json"))]
    assert {certificate["verdict"] for certificate in certificates} == {"passed"}
