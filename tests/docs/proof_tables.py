"""Print what `docs/proof/` records, as the tables of `docs/proof.md`: `python -m tests.docs.proof_tables`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rowcall.torture.certificate import Certificate
from tests.faults.call_records import CallRecords
from tests.faults.parts import DATABASES
from tests.planted.cell_records import CellRecords
from tests.planted.layers import layers
from tests.planted.table import DEFECTS
from tests.simulation.scenario import MODES
from tests.simulation.seed_records import SeedRecords

ROOT = Path(__file__).parents[2]
PROOF = ROOT / "docs" / "proof"


def tables() -> dict[str, list[str]]:
    """Return the lines of each table, in Markdown, by its name."""
    return {
        "faults": list(_faults()),
        "planted": list(_planted()),
        "simulation": list(_simulation()),
        "torture": list(_torture()),
    }


def _faults() -> Iterator[str]:
    calls = CallRecords(PROOF / "faults.json").calls
    yield "| database | calls without a problem | cases | revisions |"
    yield "| --- | --- | --- | --- |"
    for database in DATABASES:
        if ran := [call for call in calls if call.database == database]:
            cases, revisions = sum(call.cases for call in ran), _names(call.revision for call in ran)
            yield f"| {database} | {len(ran)} | {cases:,} | {revisions} |"


def _planted() -> Iterator[str]:
    records, names = CellRecords(PROOF / "planted.json"), [layer.name for layer in layers()]
    yield from records.table([one.name for one in DEFECTS], names)
    caught = {cell.defect for cell in records.cells.values() if cell.caught}
    counts = Counter(cell.layer for cell in records.cells.values() if cell.caught)
    ran = Counter(cell.layer for cell in records.cells.values())
    yield f"| **{len(caught)} of {len(DEFECTS)}** | {' | '.join(f'{counts[name]} of {ran[name]}' for name in names)} |"


def _simulation() -> Iterator[str]:
    records = SeedRecords(PROOF / "simulation.json")
    yield "| mode | seeds without a problem | points | revisions |"
    yield "| --- | --- | --- | --- |"
    for mode in MODES:
        ranges = [seeds for seeds in records.ranges if seeds.mode == mode]
        points = sum(seeds.points for seeds in ranges)
        yield f"| {mode} | {records.count(mode):,} | {points:,} | {_names(seeds.revision for seeds in ranges)} |"


def _torture() -> Iterator[str]:
    yield "| database | runs | jobs | attempts | lost with their workers | faults | findings |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    runs: dict[str, list[Certificate]] = defaultdict(list)
    for path in sorted((PROOF / "torture").glob("*.json")):
        certificate = msgspec.json.decode(path.read_bytes(), type=Certificate)
        runs[certificate.versions.database].append(certificate)
    for database, certificates in sorted(runs.items(), reverse=True):
        jobs = [certificate.jobs for certificate in certificates]
        counts = (
            sum(one.in_database for one in jobs),
            sum(one.attempts for one in jobs),
            sum(one.lost for one in jobs),
            sum(sum(one.faults.values()) for one in certificates),
            sum(len(one.findings) for one in certificates),
        )
        yield f"| {database} | {len(certificates)} | {' | '.join(f'{count:,}' for count in counts)} |"


def _names(revisions: Iterator[str]) -> str:
    return ", ".join(f"`{one}`" for one in dict.fromkeys(revisions))


if __name__ == "__main__":
    for name, lines in tables().items():
        print(f"\n{name}\n\n" + "\n".join(lines))
