"""What an experiment is given: sizes, and sites to work on."""

from __future__ import annotations

import random
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Literal

from benchmarks.database import Kind, url_of
from benchmarks.sizes import FULL, Sizes
from rowcall.testing.mysql import DURABLE_SETTINGS as MYSQL_DURABLE
from rowcall.testing.mysql import MysqlServer
from rowcall.testing.postgres import DURABLE_SETTINGS, PostgresServer

Figures = dict[str, float]
"""What one round of an experiment measured: one number for each name."""

Share = Literal["all", "half", "one"]

TURNS = 3
# MariaDB's defaults, where the private server is smaller
MYSQL_SETTINGS = {**MYSQL_DURABLE, "innodb_buffer_pool_size": "128M", "loose_innodb_log_file_size": "96M"}


def in_turns(measures: Mapping[str, Callable[[], float]]) -> Figures:
    """Take these measurements in turns, and return the median of each: what slows the machine slows them equally.

    Each turn begins with the next one, as the first of a turn may be slower.
    """
    names = list(measures)
    taken = [{name: measures[name]() for name in names[turn:] + names[:turn]} for turn in range(TURNS)]
    return {name: median([figures[name] for figures in taken]) for name in names}


@dataclass(frozen=True)
class Site:
    """A database for a queue, and a folder for what processes leave behind."""

    url: str
    folder: Path


@dataclass(frozen=True)
class Bench:
    sizes: Sizes
    folder: Path
    server: PostgresServer | None = None
    mysql: MysqlServer | None = None
    kind: Kind = "sqlite"
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    _kept: dict[tuple[Kind, str], Site] = field(default_factory=dict)

    def on(self, kind: Kind) -> Bench:
        """Return the same for a database."""
        return replace(self, kind=kind)

    @contextmanager
    def fresh_site(self) -> Iterator[Site]:
        """An empty database for one measurement, gone afterwards."""
        site = self._new_site()
        try:
            yield site
        finally:
            if self.kind != "sqlite":
                self._of_kind.drop_database(site.folder.name)
            shutil.rmtree(site.folder)

    def kept_site(self, name: str, fill: Callable[[Site], None]) -> Site:
        """A database that stays from round to round, filled when it is first asked for."""
        if (self.kind, name) not in self._kept:
            site = self._new_site()
            fill(site)
            self._kept[self.kind, name] = site
        return self._kept[self.kind, name]

    @property
    def postgres(self) -> PostgresServer:
        if self.server is None:
            raise RuntimeError("there is no PostgreSQL server in this run")
        return self.server

    @property
    def _of_kind(self) -> PostgresServer | MysqlServer:
        if self.kind != "mysql":
            return self.postgres
        if self.mysql is None:
            raise RuntimeError("this run has not started a server of MariaDB or MySQL")
        return self.mysql

    def _new_site(self) -> Site:
        folder = self.folder / f"site_{uuid.uuid4().hex[:12]}"
        folder.mkdir()
        url = url_of(folder / "queue.db") if self.kind == "sqlite" else self._of_kind.create_database(folder.name)
        return Site(url, folder)


@contextmanager
def opened(max_connections: int = 300) -> Iterator[Bench]:
    """A bench of full size with a durable PostgreSQL server for many workers, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="rowcall-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # a server that root starts runs as another user
        with PostgresServer(
            folder / "postgres", settings={**DURABLE_SETTINGS, "max_connections": str(max_connections)}
        ) as server:
            yield Bench(FULL, folder, server)


@dataclass(frozen=True)
class Experiment:
    """`share` is in how many of the rounds it takes part; a figure's full name begins with the experiment's."""

    name: str
    title: str
    measure: Callable[[Bench], Figures]
    share: Share = "all"
    kind: Kind = "sqlite"

    def rounds(self, asked: int) -> int:
        return {"all": asked, "half": (asked + 1) // 2, "one": 1}[self.share]
