"""The processes of a storm: some of each role, replaced when they die."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from rowcall.testing.deadline import eventually
from tests.conformance.notes import Notes
from tests.crash.storm.nursery import PATIENCE_SECONDS, Child, Nursery

SIZES = {"work": 3, "produce": 2, "steer": 1, "claim": 1}
CALLS_OF_A_PRODUCER = 60
ISOLATING = 3  # every third worker: the others do not declare isolated tasks
BYTES_OF_A_NOTE = 18
OWN_ERROR = "with an unexpected error"
DATABASE_AWAY = ("connection", "the database")


class Fleet:
    def __init__(self, folder: Path, seed: int, url: Callable[[], str]) -> None:
        """`url` is asked for each process: some may take another way."""
        self.notes = Notes(folder / "notes")
        self.started: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._folder = folder
        self._file = folder / "notes"
        self._seed = seed
        self._url = url
        self._nursery = Nursery(folder)
        self._running: dict[str, list[Child]] = {role: [] for role in SIZES}
        self._stopped: list[Child] = []

    @property
    def notes_written(self) -> int:
        """About how many."""
        return self._file.stat().st_size // BYTES_OF_A_NOTE if self._file.exists() else 0

    def fill_up(self, producers: int) -> None:
        """Replace who has ended; no more producers than this many in all."""
        self._clear_away()
        for role, size in SIZES.items():
            while len(self._running[role]) < size and not (role == "produce" and self.started[role] >= producers):
                self.start(role)

    def start(self, role: str, *, calm: bool = False) -> Child:
        self.started[role] += 1
        seed = f"{self._seed}-{role}-{self.started[role]}"
        env = {"STORM_URL": self._url(), "STORM_NOTES": str(self._file), "STORM_SEED": seed}
        if calm:
            env["STORM_CALM"] = "1"
        if role != "work" or calm or self.started[role] % ISOLATING == 1:
            env["STORM_ISOLATION"] = "1"
        child = self._nursery.start([role, seed, str(self._folder), str(CALLS_OF_A_PRODUCER)], env)
        self._running[role].append(child)
        return child

    def pick(self, chance: random.Random, *roles: str) -> Child | None:
        """One that has got going, and is not stopped."""
        ready = {note.pid for note in self.notes.read("ready")}
        there = [one for role in roles for one in self._running[role] if one.pid in ready and one.alive]
        there = [one for one in there if one not in self._stopped]
        return chance.choice(there) if there else None

    def wait_until_ready(self) -> None:
        def not_ready() -> set[int]:
            ready = {note.pid for note in self.notes.read("ready")}
            return {process.pid for process in self._all() if process.alive} - ready

        eventually(lambda: not not_ready(), within=PATIENCE_SECONDS, message="the start of all processes")

    def kill(self, process: Child) -> None:
        """Stop it first: its handlers stand still before the note is written, and their slots are still in use."""
        process.stop()
        self.notes.write("kill", process.pid)
        process.kill()

    def kill_when(self, process: Child, condition: Callable[[], bool]) -> bool:
        """Kill it, if the condition is true in the moment in which it is stopped."""
        process.stop()
        if process.alive and condition():
            self.kill(process)
            return True
        process.send(signal.SIGCONT)
        return False

    def stop(self, process: Child, is_good_moment: Callable[[], bool]) -> bool:
        """Send SIGSTOP, unless the process holds a lock that all others need."""
        process.stop()
        if not is_good_moment():
            process.send(signal.SIGCONT)
            return False
        self.notes.write("stop", process.pid)
        self._stopped.append(process)
        return True

    def ask_to_end(self, worker: Child) -> None:
        """Once: a second signal would not let handlers finish."""
        if not worker.is_ending:
            worker.is_ending = True
            worker.send(signal.SIGTERM)

    @property
    def stopped(self) -> list[Child]:
        return list(self._stopped)

    def resume(self, process: Child) -> None:
        self._stopped.remove(process)
        process.send(signal.SIGCONT)

    def end(self) -> None:
        """Let all of them come to their end."""
        for process in self.stopped:
            self.resume(process)
        (self._folder / "calm").touch()
        self.wait_until_ready()
        for process in self._running["work"]:
            self.ask_to_end(process)
        for process in self._all():
            process.wait()
        self._clear_away()

    def close(self) -> None:
        for process in self._all():
            process.kill()
        self._nursery.close()

    def _all(self) -> Iterator[Child]:
        for processes in self._running.values():
            yield from processes

    def _clear_away(self) -> None:
        for role, processes in self._running.items():
            for process in [one for one in processes if not one.alive]:
                self._look_at(role, process)
                processes.remove(process)

    def _look_at(self, role: str, process: Child) -> None:
        """It ended as asked or was killed, or could not start as the database was away just then."""
        output = process.output
        if OWN_ERROR in output:
            self.troubles.append(f"{role}: {output[max(0, output.index(OWN_ERROR) - 200) :][:3000]}")
        elif not process.ended_well and not any(text in output for text in DATABASE_AWAY):
            self.troubles.append(f"{role} ended with: {output[-3000:]}")
