"""Names say what they mean: locals say what they hold, and a file name is not repeated for another subject."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import rowcall

SOURCE = Path(rowcall.__file__).parent
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

VAGUE = {"found", "given", "wanted", "said", "one", "rest"}
"""Names that are clear only next to their assignment."""

MOST_LINES = 3

ONE_TOPIC_PER_FILE = (
    *("cli/commands", "http/api", "http/pages", "operations", "store/queries", "store/sqlite", "store/postgres"),
    *("store/mysql", "drivers/mysql"),
    *("drivers/caller", "drivers/sqlite", "drivers/postgres", "django", "integrations"),
)
"""Folders whose files have the names of topics, or the names that a framework expects."""

ON_TWO_LAYERS = {
    *("app.py", "blobs.py", "cancel_requests.py", "fairness.py", "held_jobs.py", "lifespan.py", "limits.py"),
    *("postgres.py", "pruning.py", "push.py", "tracing.py"),
}
"""Files elsewhere that share a name, because they are about the same topic on two layers."""

SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def bound_in(scope: ast.AST) -> set[str]:
    """Return the vague names that a scope binds itself."""
    inner = [node for node in ast.iter_child_nodes(scope) if not isinstance(node, SCOPES)]
    names = {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return (names | {node.arg for node in inner if isinstance(node, ast.arg)}).union(*map(bound_in, inner)) & VAGUE


class LongUses(ast.NodeVisitor):
    """Finds the vague names that are used over too many lines of the scope that binds them."""

    def __init__(self) -> None:
        self.problems: list[tuple[int, str]] = []
        self._scopes: list[dict[str, list[int]]] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, SCOPES):
            self._scopes.append({name: [] for name in bound_in(node)})
            self.generic_visit(node)
            for name, lines in self._scopes.pop().items():
                if max(lines) - min(lines) >= MOST_LINES:
                    self.problems.append((min(lines), name))
            return
        if isinstance(node, ast.Name | ast.arg):
            name = node.id if isinstance(node, ast.Name) else node.arg
            scope = next((scope for scope in reversed(self._scopes) if name in scope), {})
            scope.setdefault(name, []).append(node.lineno)
        self.generic_visit(node)


def long_uses(text: str) -> list[tuple[int, str]]:
    visitor = LongUses()
    visitor.visit(ast.parse(text))
    return visitor.problems


def test_vague_names_are_used_next_to_their_assignment() -> None:
    problems = [
        f"{path.relative_to(folder).as_posix()}:{line}: {vague}"
        for folder in (SOURCE, BENCHMARKS)
        for path in sorted(folder.rglob("*.py"))
        for line, vague in long_uses(path.read_text(encoding="utf-8"))
    ]
    assert problems == [], f"say what it holds, or use it within {MOST_LINES} lines"


def test_a_scope_is_a_function_or_a_comprehension() -> None:
    assert long_uses("def f(one):\n\n    return one") == []
    assert long_uses("def f(one):\n\n\n    return lambda: one") == [(1, "one")]
    assert long_uses("def f(one):\n\n\n    return [one for one in ()]") == []
    assert long_uses("class C:\n    one: int\n\n\n    def f(self):\n        return self.one") == []


def test_a_file_name_is_not_repeated_for_another_subject() -> None:
    names = Counter(
        path.name
        for path in SOURCE.rglob("*.py")
        if not path.relative_to(SOURCE).as_posix().startswith(tuple(f"{folder}/" for folder in ONE_TOPIC_PER_FILE))
    )
    assert {name for name, count in names.items() if count > 1} - {"__init__.py"} == ON_TWO_LAYERS
