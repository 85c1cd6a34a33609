"""All cases and their fixtures, to be imported by the module that binds them to a database."""

from __future__ import annotations

import pytest

# before they are imported, so that their assertions say what they saw
pytest.register_assert_rewrite("rowcall.testing.conformance.cases")

from rowcall.testing.conformance.cases.claim import TestClaim  # noqa: E402
from rowcall.testing.conformance.cases.enqueue import TestEnqueue  # noqa: E402
from rowcall.testing.conformance.fixtures import clock, jobs, open_queue, start_program, store  # noqa: E402

__all__ = [
    "TestClaim",
    "TestEnqueue",
    "clock",
    "jobs",
    "open_queue",
    "start_program",
    "store",
]
