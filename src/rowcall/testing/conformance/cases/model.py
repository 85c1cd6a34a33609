"""A model and the real store, side by side."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rowcall.testing.conformance.model.machine import QueueMachine
from rowcall.testing.conformance.store import Store

# derandomized and without a memory of its own: the same walk each time, so that nothing fails only now and then
SETTINGS = settings(
    max_examples=100,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a failure is made as short as it can be, which takes its time
class TestModel:
    def test_the_model_and_the_store_agree_after_each_step(self, new_store: Callable[[], Store]) -> None:
        class Machine(QueueMachine):
            def __init__(self) -> None:
                super().__init__(new_store())

        run_state_machine_as_test(Machine, settings=SETTINGS)
