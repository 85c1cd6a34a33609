"""An app that follows a move: `python -m tests.moving.product URL MOVES_TO COMMAND NOTES`; and a move that dies."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import closing
from pathlib import Path

from rowcall import Context, Rowcall
from rowcall.app import queue_of
from rowcall.domain.config import configure
from rowcall.moving import mover
from rowcall.moving.mover import Mover, MoveReport
from rowcall.queue import Backend
from tests.conformance.notes import Notes
from tests.faults.injection import Fault, Injector, injected

MOST_WAITING = 200
PAUSE_SECONDS = 0.005
MOVED = "moved"


def main() -> None:
    url, moves_to, command, path = sys.argv[1:]
    notes = Notes(Path(path))
    with Rowcall(url, moves_to=moves_to) as jobs:

        @jobs.task(tags=["moving"])
        def note(ctx: Context) -> None:
            notes.write("ran", ctx.job.id, ctx.job.attempt)

        if command == "work":
            jobs.work(concurrency=4)
            return
        pause = threading.Event()
        while not stop_file(path).exists():
            if jobs.stats().by_status["pending"] > MOST_WAITING:
                pause.wait(PAUSE_SECONDS)
                continue
            for job in (note.enqueue(), *note.enqueue_many([{}, {}]), jobs.enqueue("note", delay=0.05)):
                notes.write("enqueued", job.id)
            pause.wait(PAUSE_SECONDS)


def stop_file(notes: Path | str) -> Path:
    """Producers enqueue until this file exists."""
    return Path(f"{notes}-stop")


def quiet(progress: object) -> None:
    pass


def move(source: str, target: str, *, wait_seconds: float = 60.0) -> MoveReport:
    with Rowcall(source) as jobs:
        return move_queue(jobs, target, wait_seconds=wait_seconds)


def move_queue(jobs: Rowcall, target: str, *, wait_seconds: float = 60.0) -> MoveReport:
    with closing(Backend(lambda: configure(target))) as there:
        return Mover(queue_of(jobs), there, wait_seconds=wait_seconds, full=True, report=quiet).run()


def move_and_die(source: str, target: str, number: int, output: Path) -> int:
    """Move in a child that dies at a statement, as SIGKILL ends it. Return its wait status: 0 if the move has ended."""
    child = os.fork()
    if not child:
        injector, code = Injector(), 1
        try:
            mover.JOBS_AT_ONCE = mover.CHANGES_AT_ONCE = 50
            with injected(injector):
                injector.arm(number, Fault.DIES_AFTER)
                move(source, target)
                code = 0
        except BaseException as error:
            output.write_text(repr(error), encoding="utf-8")
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main()
