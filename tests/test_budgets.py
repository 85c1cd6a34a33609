"""How much of some things there may be. A change that needs more removes something first.

`python -m tests.test_budgets` prints the table. A ceiling only gets lower, until it is the goal.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.sqlite.dialect import SqliteDialect
from rowcall.store.statement import Catalogue
from tests.docs.test_walk import MOST_FILES, files_in_all, off_the_path, walk

SOURCE = Path(__file__).parents[1] / "src" / "rowcall"
MOST_PARAMETERS, MOST_LINES = 8, 60
NO_BUDGET = {0, 1, 2, 1000}
"""Numbers that count and convert, and decide nothing."""


def _catalogues() -> list[dict[str, str]]:
    """Return the texts of each database, by name."""
    dialects = (SqliteDialect("rowcall_"), PostgresDialect("rowcall_"))
    return [value.texts() for one in dialects for value in vars(one).values() if isinstance(value, Catalogue)]


def _ends_a_job(text: str) -> bool:
    changed = re.search(r"update\s+rowcall_job\b.*?\bset\b(.*)", text, re.DOTALL)
    return changed is not None and all(
        re.search(pattern, changed[1]) for pattern in (r"\bstatus = ", r"\bfinished_at = (?!null)")
    )


def _claims_a_job(name: str, text: str) -> bool:
    """Whether it writes claims, or takes jobs out of the ready ones. What ends or marks a claim does not count."""
    claims = re.search(r"insert\s+(or\s+ignore\s+)?into\s+rowcall_claim\b|delete\s+from\s+rowcall_ready\b", text)
    runs = re.search(r"update\s+rowcall_job\b.*?\bset\b.*?\bstatus = 'running'", text.partition("where")[0], re.DOTALL)
    return bool(claims or runs) and not name.startswith("clear_")


def _trees(folder: str = "") -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((SOURCE / folder).rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _functions() -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for _, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def _parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _folder_of(module: str, room: str) -> str | None:
    """Return the folder or module directly below a room that a module belongs to."""
    prefix = f"rowcall.{room}."
    return module.removeprefix(prefix).partition(".")[0] if module.startswith(prefix) else None


def _in_cycles(room: str) -> set[str]:
    """Return what lies directly below a room and imports itself through others."""
    imports: dict[str, set[str]] = defaultdict(set)
    for name, tree in _trees(room):
        here = name.removeprefix(f"{room}/").partition("/")[0].removesuffix(".py")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
                found = {_folder_of(module, room) for module in modules if _folder_of(module, room)}
                known = {one for one in found if one and (SOURCE / room / one).exists()}
                imports[here] |= known | {one for one in found if one and (SOURCE / room / f"{one}.py").exists()}
    reached = {start: set(there) - {start} for start, there in imports.items()}
    for _ in reached:
        for start, there in reached.items():
            reached[start] = there.union(*(reached.get(one, set()) for one in there))
    return {start for start, there in reached.items() if start in there}


def files_of_a_plain_job() -> int:
    """Return how many files the walk in docs/architecture.md lists: a test compares it with a real job."""
    return len({stop.file for part in MOST_FILES for stop in walk(part)} | off_the_path())


def numbers_of_the_worker() -> int:
    return sum(
        isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in NO_BUDGET
        for name, tree in _trees("worker")
        if not re.fullmatch(r"worker/(pace\.py|pacing/.*)", name)
        for node in ast.walk(tree)
    )


def uses_of_one_writer() -> int:
    return sum(
        isinstance(node, ast.Attribute) and node.attr == "one_writer"
        for name, tree in _trees()
        if not re.match(r"store/(sqlite|postgres)/|worker/pacing/", name)
        for node in ast.walk(tree)
    )


def repeated_class_names() -> int:
    names = Counter(node.name for _, tree in _trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return sum(count > 1 for count in names.values())


def callers_of_pass_order() -> int:
    """Return how many functions pass the order on: each of them writes out what follows an end."""
    return sum(
        any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "pass_order" for node in ast.walk(function))
        for function in _functions()
    )


class Budget(NamedTuple):
    measure: Callable[[], int]
    ceiling: int
    goal: int


BUDGETS = {
    "statements that end a job, per database": Budget(
        lambda: max(sum(map(_ends_a_job, texts.values())) for texts in _catalogues()), 5, 5
    ),
    "statements that claim, of both databases": Budget(
        lambda: sum(_claims_a_job(*item) for texts in _catalogues() for item in texts.items()), 12, 12
    ),
    "functions that write out what follows an end": Budget(callers_of_pass_order, 1, 1),
    "files that a plain job enters and an empty drain does not": Budget(files_of_a_plain_job, 32, 32),
    "folders in a cycle: store and worker": Budget(lambda: len(_in_cycles("store")) + len(_in_cycles("worker")), 0, 0),
    "class names defined more than once": Budget(repeated_class_names, 4, 8),
    "numbers of the worker outside pace.py and pacing": Budget(numbers_of_the_worker, 15, 15),
    "uses of one_writer outside a database and pacing": Budget(uses_of_one_writer, 2, 5),
    f"functions with more than {MOST_PARAMETERS} parameters": Budget(
        lambda: sum(_parameters_of(one) > MOST_PARAMETERS for one in _functions()), 3, 3
    ),
    f"functions over {MOST_LINES} lines": Budget(
        lambda: sum((one.end_lineno or 0) - one.lineno >= MOST_LINES for one in _functions()), 0, 0
    ),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_there_is_no_more_than_the_ceiling(name: str) -> None:
    budget = BUDGETS[name]
    measured = budget.measure()
    assert measured <= budget.ceiling, "remove something first"
    assert measured == budget.ceiling or measured < budget.goal, "lower the ceiling, so that it stays there"


def test_a_cycle_and_a_statement_are_found() -> None:
    assert _ends_a_job("update rowcall_job as job set status = 'failed', finished_at = now where id = $1")
    assert not _ends_a_job("update rowcall_job set status = 'pending', finished_at = null where id = $1")
    assert _claims_a_job("claim", "delete from rowcall_ready where id = $1")
    assert _claims_a_job("claim", "delete\n  from rowcall_ready where id = $1")
    assert not _claims_a_job("find_work", "select * from rowcall_ready")


if __name__ == "__main__":
    print(f"{'budget':<58} {'now':>4} {'goal':>5}")
    for name, budget in BUDGETS.items():
        print(f"{name:<58} {budget.measure():>4} {budget.goal:>5}")
    print(f"{'files that a plain job and its drain enter in all':<58} {files_in_all():>4}")
