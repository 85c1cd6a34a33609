"""Import an app: `module:name` of a `Rowcall`."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import click

from rowcall.app import Rowcall, queue_of
from rowcall.base.urls import looks_secret
from rowcall.cli.django_project import task_modules

_ROWCALL = str(Path(__file__).parent.parent)


def load(app: str, imports: Iterable[str] = ()) -> Rowcall:
    """Import `module:name`, from the current folder first; then the modules that declare its tasks.

    These are `imports`, `tasks` of each app of a Django project and, if the app is in a package, `tasks` in the package
    and in each folder of it.
    """
    module_name, mark, names = app.partition(":")
    if "//" in app or "%" in app or looks_secret(app):
        raise click.UsageError("APP must be module:name, such as app:jobs; a URL belongs in the app, or after --url")
    if not mark and not app.endswith(".py") and os.path.isfile(app):
        raise click.UsageError(f"{app!r} is a file, not an app; to look at a database: --url sqlite:///{app}")
    if not (mark and module_name and names):
        raise click.UsageError(f"{app!r} is not an app; write module:name, such as app:jobs")
    if module_name.endswith(".py"):
        raise click.UsageError(f"{app!r} names a file, not a module; did you mean {_module_of(module_name)}:{names}?")
    if os.sep in module_name:  # perhaps a URL without its colon, so the name, which may be a password, is not shown
        raise click.UsageError(f"{module_name!r} is not a module; did you mean {_module_of(module_name)}?")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    of_project = task_modules()  # sets Django up, before the app imports its models
    app_object: object = _imported(module_name)
    path, hint = f"{module_name}:", ""
    for name in names.split("."):
        holder, hint = app_object, _did_you_mean(app_object, path)
        if not hasattr(holder, name):
            raise click.UsageError(f"{module_name} has no {names!r}{hint}")
        app_object, path = getattr(holder, name), f"{path}{name}."
    if not isinstance(app_object, Rowcall):
        raise click.UsageError(
            f"{app} is of type {type(app_object).__name__}, not Rowcall{_did_you_mean(app_object, path) or hint}"
        )
    for name in (*_tasks_modules(module_name), *of_project, *imports):
        _imported(name)
    try:
        queue_of(app_object).declared.finish()
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise click.UsageError(f"the last declarations of {app} failed: {said}") from error
    return app_object


def _tasks_modules(app_module: str) -> list[str]:
    """Return the names of `shop.tasks`, `shop.mail.tasks`, … for `shop.app` or `shop`, as far as there are files."""
    module = sys.modules[app_module]
    package = app_module if hasattr(module, "__path__") else app_module.rpartition(".")[0]
    names = set()
    for folder in sys.modules[package].__path__ if package else ():
        for pattern in ("tasks.py", "tasks/__init__.py", "*/tasks.py", "*/tasks/__init__.py"):
            for path in Path(folder).glob(pattern):
                parts = path.relative_to(folder).with_suffix("").parts
                names.add(".".join((package, *(part for part in parts if part != "__init__"))))
    return sorted(name for name in names if all(map(str.isidentifier, name.split("."))))


def _module_of(path: str) -> str:
    """
    >>> _module_of("./shop/app.py")
    'shop.app'
    """
    return os.path.normpath(path).removesuffix(".py").strip(os.sep).replace(os.sep, ".")


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            where = f"in {os.getcwd()} or installed for {sys.executable}"
            raise click.UsageError(f"there is no module {error.name!r} {where}") from None
        raise click.UsageError(_import_failure(name, error)) from error
    except (Exception, SystemExit) as error:
        raise click.UsageError(_import_failure(name, error)) from error


def _import_failure(name: str, error: BaseException) -> str:
    problem = f"importing {name} failed: {type(error).__name__}: {error}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) or not frames or frames[-1].filename == __file__:
        return problem
    frame = next((frame for frame in reversed(frames) if _belongs_to_app(frame.filename)), frames[-1])
    traceback_command = f"{shlex.quote(sys.executable)} -c 'import {name}'"
    return f"{problem} ({frame.filename}, line {frame.lineno}); for the traceback: {traceback_command}"


def _belongs_to_app(filename: str) -> bool:
    """Return whether the file is neither Rowcall's, nor Python's own, nor installed."""
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = {os.path.realpath(at) for at in (_ROWCALL, *map(sysconfig.get_path, kinds))}
    real = os.path.realpath(filename)
    return os.path.isfile(real) and not any(real.startswith(f"{at}{os.sep}") for at in libraries)


def _did_you_mean(holder: object, path: str) -> str:
    """Return the names of queues for an error about a wrong name; private ones only if there is no other."""
    names = sorted(name for name, value in getattr(holder, "__dict__", {}).items() if isinstance(value, Rowcall))
    names = [name for name in names if not name.startswith("_")] or names
    return f"; did you mean {' or '.join(f'{path}{name}' for name in names)}?" if names else ""
