"""The models of the conformance kit against SQLite: the same walks each time, and no search for a shorter one.

python -m tests.planted.models
"""

from __future__ import annotations

import itertools
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from rowcall import Rowcall
from rowcall.testing.private_server import MEMORY, memory_has_room
from tests.conformance.model.flow_machine import FlowMachine
from tests.conformance.model.machine import QueueMachine
from tests.conformance.model.sharing_machine import SharingMachine
from tests.conformance.model.step_machine import StepMachine
from tests.conformance.store import Store
from tests.conformance.test_sqlite import SqliteFile

WALKS = settings(
    max_examples=20,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def main() -> None:
    logging.disable()
    with tempfile.TemporaryDirectory(dir=MEMORY if memory_has_room() else None) as folder:
        new_store = _stores(Path(folder))
        for machine in (QueueMachine, FlowMachine, StepMachine, SharingMachine):
            run_state_machine_as_test(_on(machine, new_store), settings=WALKS)  # type: ignore[arg-type]


def _stores(folder: Path) -> Callable[[], Store]:
    template, numbers = folder / "template.db", itertools.count()
    with Rowcall(f"sqlite:///{template}") as jobs:
        jobs.migrate()
    return lambda: SqliteFile(Path(shutil.copyfile(template, folder / f"{next(numbers)}.db")))


def _on(
    machine: Callable[[Store], RuleBasedStateMachine], new_store: Callable[[], Store]
) -> Callable[[], RuleBasedStateMachine]:
    return lambda: machine(new_store())


if __name__ == "__main__":
    main()
