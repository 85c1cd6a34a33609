"""What an experiment is given: sizes, and folders to work in."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.sizes import Sizes

Figures = dict[str, float]
"""What one round of an experiment measured: one number for each name."""


@dataclass(frozen=True)
class Bench:
    sizes: Sizes
    folder: Path
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def kept(self, name: str) -> Path:
        """A file that stays from round to round."""
        return self.folder / name

    @contextmanager
    def fresh_folder(self) -> Iterator[Path]:
        """A folder for one measurement, gone afterwards."""
        path = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield path
        finally:
            shutil.rmtree(path)


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    measure: Callable[[Bench], Figures]
    heavy: bool = False

    def rounds(self, asked: int) -> int:
        """Heavy ones go round about half as often."""
        return (asked + 1) // 2 if self.heavy else asked
