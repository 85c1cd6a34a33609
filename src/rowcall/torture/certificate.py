"""What a torture run found, with all that is needed to repeat it. It names no host, no path and no user."""

from __future__ import annotations

import msgspec


class TortureFinding(msgspec.Struct, frozen=True):
    """A promise that did not hold: how often, and some of the places."""

    check: str
    count: int
    examples: list[str]


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    rowcall: str
    python: str
    database: str
    host: str


class TortureCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Of jobs and attempts, as the database and the witness files have them."""

    acknowledged: int
    in_database: int
    succeeded: int
    failed: int
    attempts: int
    lost: int
    starts: int


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    verdict: str
    command: str
    seed: int
    versions: Versions
    seconds: float
    jobs: TortureCounts
    faults: dict[str, int]
    not_possible: dict[str, str]
    findings: list[TortureFinding]
