"""What `rowcall init` writes: an app for the framework that it finds, and files that run its worker."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from string import Template

FRAMEWORKS = ("django", "fastapi", "flask", "litestar", "plain")
GITIGNORE = ".gitignore"
_FILES = Path(__file__).parent
_COMMAND = {"django": "manage rowcall {}", "flask": "flask --app app rowcall {}"}
_URL = "ROWCALL_URL: postgresql://postgres:postgres@db/postgres"
# Django has no setting for a URL; libpq reads these where DATABASES names no host
_LIBPQ = ("PGHOST: db", "PGUSER: postgres", "PGPASSWORD: postgres")
_DATABASE = (
    'It needs DATABASES in settings.py:\n# {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres"}}'
)
_REQUIREMENTS = "requirements.txt"
_PACKAGES = {
    "django": "'rowcall[postgres,django]'",
    "fastapi": "'rowcall[postgres,fastapi]' uvicorn",
    "flask": "'rowcall[postgres,flask]'",
    "litestar": "'rowcall[postgres,litestar]' uvicorn",
    "plain": "'rowcall[postgres]'",
}


def framework_of(folder: Path) -> str:
    """Return the framework of a project: Django has a manage.py, the others are found by what is installed."""
    if (folder / "manage.py").exists():
        return "django"
    return next((name for name in ("fastapi", "litestar", "flask") if importlib.util.find_spec(name)), "plain")


def starter(framework: str, folder: Path) -> dict[str, str]:
    """Return the texts of the files, by name."""
    app = "app:jobs"
    work, watch = (_COMMAND.get(framework, f"rowcall {{}} {app}").format(name) for name in ("work", "watch"))
    is_django = framework == "django"
    has_requirements = (folder / _REQUIREMENTS).exists()
    words = {
        "app": app,
        "database": _DATABASE if is_django else "Rowcall() opens $ROWCALL_URL.",
        "folder": str(folder),
        "name": folder.name or "app",
        "packages": _PACKAGES[framework] + (f" -r {_REQUIREMENTS}" if has_requirements else ""),
        "python": sys.executable,
        "requirements": f"COPY {_REQUIREMENTS} .\n" if has_requirements else "",
        "variables": "\n".join(f"      {line}" for line in (_LIBPQ if is_django else (_URL,))),
        "user": _owner(folder),
        "work": work,
        "words": ", ".join(map(json.dumps, work.split())),
        "watch": watch,
        "watch_words": ", ".join(map(json.dumps, watch.split())),
    }
    sources = {
        "Dockerfile": "Dockerfile",
        "compose.yaml": "compose.yaml",
        f"{words['name']}-worker.service": "worker.service",
        f"{words['name']}-watch.service": "watch.service",
        GITIGNORE: "gitignore",
    }
    if not is_django:
        sources = {"app.py": f"{framework}.py", **sources}
    return {
        name: Template((_FILES / f"{source}.txt").read_text(encoding="utf-8")).substitute(words)
        for name, source in sources.items()
    }


def _owner(folder: Path) -> str:
    try:
        return folder.owner()
    except KeyError:  # a container may run as a user without a name; systemd takes numbers, too
        return str(folder.stat().st_uid)
