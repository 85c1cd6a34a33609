from __future__ import annotations

from rowcall.cli.doctor.finding import CheckResult, Level, unavailable
from rowcall.domain.errors import StoreUnavailable


def test_an_error_without_advice_says_that_checks_were_skipped() -> None:
    known = StoreUnavailable("the file is locked", "End the transaction")
    assert unavailable("file", known) == CheckResult(Level.PROBLEM, "file", "the file is locked", "End the transaction")
    assert unavailable("file", ValueError("odd")).advice == "The other checks were skipped"
