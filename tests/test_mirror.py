"""The tests mirror the source: the test of `src/rowcall/room/part/module.py` is `tests/room/part/test_module.py`.

`tests/room/test_module.py` and `tests/room/test_part_module.py` are accepted, too. Exempt are modules without code
(`__init__`, `__main__`, SQL texts, constants, plain types), the example apps of the demo, and the conformance kit,
which consists of tests.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rowcall"
TESTS = ROOT / "tests"
EXEMPT = ("cli/demo", "testing/conformance")

# modules whose test is still to be written or renamed; this list only gets shorter
MISSING = {
    "drivers/blob_table.py",
    "drivers/blobs.py",
    "drivers/caller/aiosqlite.py",
    "drivers/database.py",
    "operations/arguments.py",
    "operations/blobs.py",
    "operations/scratch_tables.py",
    "store/blobs/references.py",
    "store/columns.py",
    "store/control/actions.py",
    "store/control/bulk_actions.py",
    "store/control/chains.py",
    "store/dialect.py",
    "store/ends/attempts.py",
    "store/ends/next_steps.py",
    "store/ends/waiting.py",
    "store/enqueue/related.py",
    "store/flows/blockers.py",
    "store/flows/inserted.py",
    "store/jobs/cancel_requests.py",
    "store/jobs/enqueue.py",
    "store/jobs/inspect.py",
    "store/jobs/marks.py",
    "store/jobs/pages.py",
    "store/jobs/unreadable.py",
    "store/limits/admission.py",
    "store/limits/held_jobs.py",
    "store/new_job.py",
    "store/postgres/control.py",
    "store/postgres/dialect.py",
    "store/postgres/words.py",
    "store/queries/counts.py",
    "store/queries/jobs.py",
    "store/results/waiting.py",
    "store/schedules/ticks.py",
    "store/sqlite/dialect.py",
    "store/sqlite/words.py",
    "store/statement.py",
    "worker/isolation/child.py",
}


def has_code(path: Path) -> bool:
    """Whether a module defines a function that does something."""
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not all(map(_is_empty, node.body))
        for node in ast.walk(ast.parse(path.read_text()))
    )


def _is_empty(statement: ast.stmt) -> bool:
    """A docstring, `...` or `pass`."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def wanted_tests(module: Path) -> list[Path]:
    """Return the places where a reader looks for the test of a module."""
    *folders, name = module.with_suffix("").parts
    found = []
    for depth in range(len(folders), 0 if folders else -1, -1):
        folder = TESTS.joinpath(*folders[:depth])
        found += [folder / f"test_{'_'.join([*folders[start:], name])}.py" for start in range(depth, len(folders) + 1)]
    return found


def without_a_test() -> set[str]:
    modules = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not path.name.startswith("__")]
    return {
        module.as_posix()
        for module in modules
        if not module.as_posix().startswith(EXEMPT)
        and has_code(SOURCE / module)
        and not any(path.exists() for path in wanted_tests(module))
    }


def test_each_module_has_a_test_of_its_name() -> None:
    assert without_a_test() - MISSING == set(), "write a test of that name, or rename the one there is"


def test_the_list_of_missing_tests_is_up_to_date() -> None:
    assert MISSING - without_a_test() == set(), "these have a test, or are gone: take them off the list"


def test_where_a_test_is_looked_for() -> None:
    def shown(module: str) -> list[str]:
        return [path.relative_to(TESTS).as_posix() for path in wanted_tests(Path(module))]

    assert shown("app.py") == ["test_app.py"]
    assert shown("worker/service.py") == ["worker/test_service.py"]
    assert shown("store/sqlite/dialect.py") == [
        "store/sqlite/test_dialect.py",
        "store/test_sqlite_dialect.py",
        "store/test_dialect.py",
    ]
