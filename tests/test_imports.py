"""No module imports another that imports it back, imports for types and inside functions included."""

from __future__ import annotations

import ast
from pathlib import Path

import rowcall

ROOT = Path(rowcall.__file__).parent


def imports() -> dict[str, set[str]]:
    """Return the modules of the package that each of them imports. A package's own file is above its modules."""
    paths = {_name(path): path for path in ROOT.rglob("*.py") if path.name != "__init__.py"}
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
        found[module] = named & paths.keys()
    return found


def _name(path: Path) -> str:
    return ".".join(("rowcall", *path.relative_to(ROOT).with_suffix("").parts))


def test_there_is_no_import_cycle() -> None:
    left = imports()
    while free := [module for module, needs in left.items() if not needs & left.keys()]:
        for module in free:
            del left[module]
    assert left == {}, "these modules are in a cycle, or import one that is"
