"""The walk in docs/architecture.md is the way of a real job: its functions exist, and no file is left out."""

from __future__ import annotations

import ast
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from rowcall import Rowcall
from tests.docs.pages import DOCS, ROOT, section

SOURCE = ROOT / "src" / "rowcall"
PAGE = DOCS / "architecture.md"
MOST_OFF_THE_PATH = 10  # this number only gets lower
MOST_FILES = {"Enqueue": 10, "Claim, run and settle": 15}

Entered = dict[str, set[str]]


class Stop(NamedTuple):
    file: str
    functions: list[str]


def walk(heading: str) -> list[Stop]:
    """Return the rows of the table under a heading of the walk."""
    _, mark, rest = section(PAGE, "Follow one job").partition(f"\n### {heading}\n")
    assert mark, heading
    rows = [line.split(" | ") for line in rest.partition("\n### ")[0].splitlines() if line.startswith("| `")]
    return [Stop(row[0].strip("| `"), re.findall(r"`([\w.]+)`", row[1])) for row in rows]


def off_the_path() -> set[str]:
    """Return the files off the path: values, checks that find nothing for a plain job, and waiting."""
    _, mark, rest = section(PAGE, "Follow one job").partition("\n### Off the path\n")
    assert mark
    rows = [line.split(" | ")[0] for line in rest.splitlines() if line.startswith("| `")]
    return {file for row in rows for file in re.findall(r"`([\w/.]+)`", row)}


def functions_of(file: str) -> set[str]:
    """Return the qualified names of all functions of a module."""
    found: set[str] = set()

    def collect(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + child.name)
                collect(child, f"{prefix}{child.name}.")

    collect(ast.parse((SOURCE / file).read_text(encoding="utf-8")), "")
    return found


def entered_by(call: Callable[[], object], *, in_all_threads: bool = False) -> Entered:
    """Return the functions of Rowcall that a call enters, by file: in this thread and those of handlers, or in all."""
    entered: Entered = {}
    caller = threading.current_thread()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE) and is_followed(threading.current_thread()):
            entered.setdefault(path.relative_to(SOURCE).as_posix(), set()).add(frame.f_code.co_qualname)

    def is_followed(thread: threading.Thread) -> bool:
        return in_all_threads or thread is caller or thread.name.startswith("rowcall-handler")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entered


def files_in_all() -> int:
    """Return how many files an enqueue and a drain of one job enter together."""
    with tempfile.TemporaryDirectory() as folder, Rowcall(Path(folder) / "app.db") as jobs:

        @jobs.task
        def add(left: int, right: int) -> int:
            return left + right

        add.enqueue(1, 2)
        jobs.drain()
        return len(entered_by(lambda: (add.enqueue(1, 2), jobs.drain()), in_all_threads=True))


def but(entered: Entered, others: Entered) -> Entered:
    return {file: rest for file, names in entered.items() if (rest := names - others.get(file, set()))}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entered]:
    """Return what an enqueue enters, and what a drain of one job enters that a drain of none does not."""
    with Rowcall(tmp_path_factory.mktemp("walk") / "app.db") as jobs:

        @jobs.task
        def add(left: int, right: int) -> int:
            return left + right

        add.enqueue(1, 2)
        jobs.drain()
        jobs.drain()
        enqueue = entered_by(lambda: add.enqueue(1, 2))
        drain, empty = entered_by(jobs.drain), entered_by(jobs.drain)
        assert jobs.stats().by_status["succeeded"] == 2
    return {"Enqueue": enqueue, "Claim, run and settle": drain, "only with a job": but(drain, empty)}


@pytest.mark.parametrize("part", MOST_FILES)
def test_a_job_takes_the_way_that_the_walk_describes(part: str, real: dict[str, Entered]) -> None:
    stops = walk(part)
    assert 0 < len({stop.file for stop in stops}) <= MOST_FILES[part]
    for stop in stops:
        assert stop.functions
        assert set(stop.functions) <= functions_of(stop.file), stop.file
        assert set(stop.functions) <= real[part][stop.file], f"{stop.file}: not entered"


def test_a_job_enters_no_file_that_the_walk_leaves_out(real: dict[str, Entered]) -> None:
    entered = {*real["Enqueue"], *real["only with a job"]}
    walked = {stop.file for part in MOST_FILES for stop in walk(part)}
    assert sorted(entered - walked - off_the_path()) == []


def test_the_files_off_the_path_exist_and_are_few() -> None:
    walked = {stop.file for part in MOST_FILES for stop in walk(part)}
    assert all((SOURCE / file).exists() for file in off_the_path())
    assert not off_the_path() & walked
    assert len(off_the_path()) <= MOST_OFF_THE_PATH
