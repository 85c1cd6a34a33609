"""A defect: small edits of the source, each of a text that is there exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path("src") / "rowcall"


class Edit(NamedTuple):
    """`file` is relative to the package."""

    file: str
    old: str
    new: str


class Defect(NamedTuple):
    name: str
    kit: str
    """The classes of the conformance kit that are about it, without `Test`; or a module of other tests of a store."""
    what: str
    edits: tuple[Edit, ...]
    calls: str = ""
    """The calls of `tests.faults` that are about it; without any, a share of all."""


def defect(name: str, kit: str, what: str, *edits: tuple[str, str, str], calls: str = "") -> Defect:
    return Defect(name, kit, what, tuple(Edit(*edit) for edit in edits), calls)


def problems_of(defect: Defect, root: Path) -> Iterator[str]:
    """Yield the edits that do not fit the source any more."""
    for edit in defect.edits:
        times = (root / PACKAGE / edit.file).read_text(encoding="utf-8").count(edit.old)
        if times != 1:
            yield f"{defect.name}: {edit.file} has this text {times} times, and must have it once:\n{edit.old}"
        if edit.old == edit.new:
            yield f"{defect.name}: {edit.file} is not changed"


def plant(defect: Defect, root: Path) -> None:
    """Apply the edits to a copy of the source, all of which must compile."""
    for edit in defect.edits:
        path = root / PACKAGE / edit.file
        text = path.read_text(encoding="utf-8").replace(edit.old, edit.new)
        compile(text, str(path), "exec")
        path.write_text(text, encoding="utf-8")


def revert(defect: Defect, root: Path, original: Path) -> None:
    for edit in defect.edits:
        (root / PACKAGE / edit.file).write_bytes((original / PACKAGE / edit.file).read_bytes())
