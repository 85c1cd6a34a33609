"""All defects."""

from __future__ import annotations

from tests.planted.of_claims import OF_CLAIMS
from tests.planted.of_ends import OF_ENDS
from tests.planted.of_steps import OF_STEPS
from tests.planted.of_workers import OF_WORKERS

DEFECTS = (*OF_ENDS, *OF_CLAIMS, *OF_STEPS, *OF_WORKERS)
