"""What a measured worker does differently, in its own process: one lane is switched off, or its rounds are timed."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from rowcall.worker.loop import Loop
from rowcall.worker.pacing import postgres
from rowcall.worker.pacing.sqlite import SqlitePacing

WITHOUT, ROUNDS = "ROWCALL_BENCH_WITHOUT", "ROWCALL_BENCH_ROUNDS"
"""Variables of the worker's process: the lane to switch off, and the file for the times of rounds."""

LANES = {
    "portions": patch.object(SqlitePacing, "note_finished"),  # then no handler is known to be instant
    "settle_thread": patch.object(postgres, "SettleThread", return_value=None),
    "resuming": patch.object(postgres.Resuming, "note"),
}

_ROUND = struct.Struct("dd")


class TimedRound(NamedTuple):
    ended: float
    seconds: float


def apply() -> None:
    """Patch this process as its environment says."""
    if lane := os.environ.get(WITHOUT):
        LANES[lane].start()
    if path := os.environ.get(ROUNDS):
        _time_rounds(Path(path))


def read_rounds(path: Path) -> list[TimedRound]:
    data = path.read_bytes()
    return [TimedRound(*fields) for fields in _ROUND.iter_unpack(data[: len(data) - len(data) % _ROUND.size])]


def _time_rounds(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    original = Loop._round

    def timed_round(self: Loop) -> None:
        began = time.perf_counter()
        original(self)
        os.write(descriptor, _ROUND.pack(time.time(), time.perf_counter() - began))

    patch.object(Loop, "_round", timed_round).start()
