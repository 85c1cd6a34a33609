"""What `rowcall init` writes: an app for the framework that it finds, and files that run its worker."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from string import Template

FRAMEWORKS = ("django", "fastapi", "flask", "plain")
_FILES = Path(__file__).parent
_PACKAGES = {
    "django": "'rowcall[postgres,django]'",
    "fastapi": "'rowcall[postgres,fastapi]' uvicorn",
    "flask": "'rowcall[postgres,flask]'",
    "plain": "'rowcall[postgres]'",
}


def framework_of(folder: Path) -> str:
    """Return the framework of a project: Django has a manage.py, the others are found by what is installed."""
    if (folder / "manage.py").exists():
        return "django"
    return next((name for name in ("fastapi", "flask") if importlib.util.find_spec(name)), "plain")


def starter(framework: str, folder: Path) -> dict[str, str]:
    """Return the texts of the files, by name."""
    app = "app:jobs"
    work = "manage rowcall work" if framework == "django" else f"rowcall work {app}"
    words = {
        "app": app,
        "folder": str(folder),
        "name": folder.name or "app",
        "packages": _PACKAGES[framework],
        "python": sys.executable,
        "work": work,
        "words": ", ".join(map(json.dumps, work.split())),
    }
    sources = {
        "Dockerfile": "Dockerfile",
        "compose.yaml": "compose.yaml",
        f"{words['name']}-worker.service": "worker.service",
    }
    if framework != "django":
        sources = {"app.py": f"{framework}.py", **sources}
    return {
        name: Template((_FILES / f"{source}.txt").read_text(encoding="utf-8")).substitute(words)
        for name, source in sources.items()
    }
