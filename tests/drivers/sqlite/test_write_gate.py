from __future__ import annotations

import mmap
import os
import signal
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall.domain.config import Config
from rowcall.drivers.sqlite.write_gate import WriteGate
from rowcall.operations.enqueue import enqueue_by_name
from rowcall.queue import Queue
from tests.support import ForkedProcess, eventually

PATIENT = 20.0

HOLD = """
import signal, sys
from rowcall.drivers.sqlite.write_gate import WriteGate
gate = WriteGate(sys.argv[1], 20.0)
gate.enter()
print("inside", flush=True)
signal.pause()
"""

GO_AGAIN_AND_AGAIN = """
import mmap, struct, sys, threading
from rowcall.drivers.sqlite.write_gate import WriteGate
folder, counter = sys.argv[1:]
with open(counter, "r+b") as file:
    turns = mmap.mmap(file.fileno(), 8)
gate = WriteGate(folder, 20.0)
number = 0
while True:
    gate.enter()
    number += 1
    struct.pack_into("q", turns, 0, number)
    if number == 10:
        print("going", flush=True)
    threading.Event().wait(0.001)
    gate.leave()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "app.db-rowcall"
    folder.mkdir()
    return folder


@pytest.fixture
def gates(folder: Path) -> Iterator[list[WriteGate]]:
    gates = [WriteGate(str(folder), PATIENT) for _ in range(3)]
    yield gates
    for gate in gates:
        gate.leave()
        gate.close()


def descriptors_in(folder: Path) -> int:
    """How many descriptors of this process lead into a folder."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith(f"{folder}/")
        except FileNotFoundError:
            continue  # the one that was used for listing
    return count


def enter_in_a_thread(gate: WriteGate) -> threading.Event:
    entered = threading.Event()

    def enter() -> None:
        gate.enter()
        entered.set()

    threading.Thread(target=enter, daemon=True).start()
    return entered


def test_one_at_a_time(gates: list[WriteGate]) -> None:
    first, second, _ = gates
    first.enter()
    entered = enter_in_a_thread(second)
    assert not entered.wait(0.05)
    first.leave()
    assert entered.wait(PATIENT)


def test_leaving_twice_lets_no_other_out(gates: list[WriteGate]) -> None:
    first, second, third = gates
    first.enter()
    first.leave()
    second.enter()
    first.leave()
    entered = enter_in_a_thread(third)
    assert not entered.wait(0.05)
    second.leave()
    assert entered.wait(PATIENT)


def test_a_gate_can_be_used_again_and_again_without_leaking(gates: list[WriteGate], folder: Path) -> None:
    for _ in range(100):
        for gate in gates:
            gate.enter()
            gate.leave()
    assert descriptors_in(folder) == 2 * len(gates)
    for gate in gates:
        gate.close()
    assert descriptors_in(folder) == 0


@pytest.mark.concurrency
def test_no_writer_enters_twice_before_one_that_waits(gates: list[WriteGate], folder: Path, tmp_path: Path) -> None:
    counter = tmp_path / "turns"
    counter.write_bytes(bytes(8))
    others_turns = []
    with (
        counter.open("r+b") as file,
        mmap.mmap(file.fileno(), 8) as turns,
        ForkedProcess("-c", GO_AGAIN_AND_AGAIN, str(folder), str(counter)) as greedy,
    ):
        greedy.wait_for("going")
        for _ in range(30):
            before = struct.unpack_from("q", turns)[0]
            gates[0].enter()
            others_turns.append(struct.unpack_from("q", turns)[0] - before)
            gates[0].leave()
    assert statistics.median(others_turns) <= 2
    assert max(others_turns) < 100


@pytest.mark.concurrency
def test_a_stopped_holder_is_passed_by_after_the_time_limit_and_waited_for_again_once_it_is_gone(folder: Path) -> None:
    gate, other = WriteGate(str(folder), 0.2), WriteGate(str(folder), PATIENT)
    with ForkedProcess("-c", HOLD, str(folder)) as holder:
        holder.wait_for("inside")
        holder.send(signal.SIGSTOP)
        began = time.monotonic()
        gate.enter()
        assert 0.15 <= time.monotonic() - began < 10
        gate.leave()
        began = time.monotonic()
        for _ in range(100):  # it does not wait again each time
            gate.enter()
            gate.leave()
        assert time.monotonic() - began < 1
        assert descriptors_in(folder) == 2  # those of the wait that was given up, however often it is passed by
        holder.kill()
    eventually(lambda: descriptors_in(folder) == 0)
    gate.enter()
    entered = enter_in_a_thread(other)
    assert not entered.wait(0.05)
    gate.leave()
    assert entered.wait(PATIENT)
    other.leave()
    gate.close()
    other.close()
    assert descriptors_in(folder) == 0


@pytest.mark.crash
def test_the_kernel_frees_the_gate_of_a_killed_holder(gates: list[WriteGate], folder: Path) -> None:
    with ForkedProcess("-c", HOLD, str(folder)) as holder:
        holder.wait_for("inside")
        entered = enter_in_a_thread(gates[0])
        assert not entered.wait(0.05)
        holder.kill()
        assert entered.wait(PATIENT)


@pytest.mark.concurrency
def test_a_stopped_holder_does_not_stop_the_world(tmp_path: Path) -> None:
    queue = Queue(lambda: Config(path=str(tmp_path / "app.db"), gate_seconds=0.2))

    def enqueued(name: str) -> int:
        return queue.run(enqueue_by_name(queue, name)).id

    enqueued("before")
    with ForkedProcess("-c", HOLD, queue.database.side_folder) as holder:
        holder.wait_for("inside")
        holder.send(signal.SIGSTOP)
        assert [enqueued("during") for _ in range(20)] == list(range(2, 22))
    assert enqueued("after") == 22
    queue.close()
