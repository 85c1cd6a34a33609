"""The job that everybody is given: its arguments, and how many are enqueued at once."""

from __future__ import annotations

NUMBER, TO = 1, "a@example.com"
ARGUMENTS = {"n": NUMBER, "to": TO}
MANY = 1_000
