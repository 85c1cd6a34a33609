"""A model and the real store, side by side."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.model.flow_machine import FlowMachine
from tests.conformance.model.machine import QueueMachine
from tests.conformance.model.sharing_machine import SharingMachine
from tests.conformance.model.step_machine import StepMachine
from tests.conformance.store import Store

HISTORIES = os.environ.get("ROWCALL_TEST_HISTORIES")  # another number of walks, at random

# derandomized and without a database of examples: the same walk each time, so that no failure is occasional
SETTINGS = settings(
    max_examples=int(HISTORIES or 5),
    stateful_step_count=40,
    derandomize=HISTORIES is None,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)

FLOW_SETTINGS = settings(SETTINGS, max_examples=int(HISTORIES or 3))
SHARING_SETTINGS = settings(SETTINGS, max_examples=int(HISTORIES or 3))
STEP_SETTINGS = settings(SETTINGS, max_examples=int(HISTORIES or 2))


@pytest.mark.slow
@pytest.mark.timeout(600)  # a failure is made as short as it can be, which takes its time
class TestModel:
    def test_the_model_and_the_store_agree_after_each_step(self, new_migrated_store: Callable[[], Store]) -> None:
        class Machine(QueueMachine):
            def __init__(self) -> None:
                super().__init__(new_migrated_store())

        run_state_machine_as_test(Machine, settings=SETTINGS)

    def test_so_do_they_about_chains_blockers_keys_and_limits(self, new_migrated_store: Callable[[], Store]) -> None:
        class Machine(FlowMachine):
            def __init__(self) -> None:
                super().__init__(new_migrated_store())

        run_state_machine_as_test(Machine, settings=FLOW_SETTINGS)

    def test_so_do_they_about_durable_steps_and_signals(self, new_migrated_store: Callable[[], Store]) -> None:
        class Machine(StepMachine):
            def __init__(self) -> None:
                super().__init__(new_migrated_store())

        run_state_machine_as_test(Machine, settings=STEP_SETTINGS)

    def test_so_do_they_about_fair_turns_and_order(self, new_migrated_store: Callable[[], Store]) -> None:
        class Machine(SharingMachine):
            def __init__(self) -> None:
                super().__init__(new_migrated_store())

        run_state_machine_as_test(Machine, settings=SHARING_SETTINGS)
