"""Which queue a command is about: `app:jobs`, `--url`, `$ROWCALL_URL` or `rowcall.db`."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.base.urls import looks_secret
from rowcall.cli.doctor.probe import version_of
from rowcall.domain.config import PATH_ADVICE, shown
from rowcall.domain.errors import InvalidOption, SchemaMismatch, StoreUnavailable
from rowcall.queue.core import Core

url_option = click.option(
    "--url", metavar="URL", help="The database: sqlite:///app.db, or postgresql://user@host/database."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
_ROWCALL = str(Path(__file__).parent.parent)
app_argument = click.argument("app", required=False, metavar="[APP]")


def queue_of(jobs: Rowcall) -> Core:
    """Return what the command line needs beyond the documented methods."""
    return jobs


def find(app: str | None, url: str | None) -> Rowcall:
    """The queue that is meant; nothing is opened yet."""
    if app is not None and url is not None:
        raise click.UsageError("give APP or --url, not both")
    if app is not None:
        return load(app)
    try:
        return Rowcall(url, auto_migrate=False)
    except InvalidOption as error:
        given = "--url" if url is not None else "$ROWCALL_URL"
        raise click.UsageError(f"{given}: {error.problem.removesuffix(PATH_ADVICE)}") from error


def url_of(path: Path) -> str:
    """The URL of a file, to be handed to another process."""
    return f"sqlite:///{quote(str(path.resolve()))}"


def existing(app: str | None, url: str | None) -> Rowcall:
    """The queue that is meant, if it and its tables are there: looking at a queue never makes one."""
    jobs = find(app, url)
    queue = queue_of(jobs)
    queue.config = msgspec.structs.replace(queue.config, auto_migrate=False)
    path = queue.database.path
    if queue.config.in_memory:
        raise StoreUnavailable("this queue lives in the memory of its own process", "Look at it from there")
    if queue.config.server is None and not os.path.exists(path):
        advice = "Check the path and the current folder; or was nothing enqueued yet?"
        if app is None and url is None:
            advice = "Name the app (app:jobs), give --url, or set ROWCALL_URL"
        raise StoreUnavailable(f"there is no file {path}", advice)
    try:
        _demand_tables(queue, app, url)
    except BaseException:
        jobs.close()
        raise
    return jobs


def _demand_tables(queue: Core, app: str | None, url: str | None) -> None:
    found, newest = version_of(queue).found, queue.dialect.newest_version
    migrate = command_for("migrate", app, url)
    if 0 < found < newest:
        raise SchemaMismatch(found, newest, f"run: {migrate}")
    if found:
        return
    advice = f"Make them with: {migrate}"
    if app is None:
        advice += "; an app with a table_prefix of its own is named instead of --url"
    if queue.config.server is not None:
        advice += "; tables in a schema of their own need it on the search_path"
    raise StoreUnavailable(f"{queue.database.name} has no tables named {queue.config.table_prefix}*", advice)


def split_app(words: tuple[str, ...], *, ids_wanted: bool = True) -> tuple[str | None, list[int]]:
    """`[APP] ID…` as its parts.

    >>> split_app(("app:jobs", "7", "8"))
    ('app:jobs', [7, 8])
    """
    app = words[0] if words and ":" in words[0] else None
    ids = words[1:] if app is not None else words
    wrong = [word for word in ids if not (word.isascii() and word.isdecimal() and 0 < int(word) < 2**63)]
    if wrong:
        raise click.UsageError(f"{wrong[0]!r} is not the id of a job")
    if not ids and ids_wanted:
        raise click.UsageError("name at least one job by its id")
    return app, list(dict.fromkeys(int(word) for word in ids))


def command_for(command: str, app: str | None, url: str | None, *words: str) -> str:
    """What to type for this command about the same database.

    >>> command_for("migrate", "app:jobs", None), command_for("resume", None, "sqlite:///my app.db", "mail")
    ('rowcall migrate app:jobs', "rowcall resume --url 'sqlite:///my app.db' mail")
    """
    target = [app] if app is not None else ["--url", shown(url)] if url is not None else []
    return shlex.join(["rowcall", command, *target, *words])


def work_command_for(app: str | None) -> str:
    """What to type for a worker of this queue."""
    return f"rowcall work {app or 'app:jobs'}"


def load(app: str) -> Rowcall:
    """Import `module:name`, from the current folder first."""
    module_name, mark, names = app.partition(":")
    if not (mark and module_name and names):
        raise click.UsageError(f"{app!r} is not an app; write module:name, such as app:jobs")
    if names.startswith("//") or looks_secret(app):
        raise click.UsageError("APP is a URL or has a password; pass a URL with --url")
    if module_name.endswith(".py") or os.sep in module_name:
        raise click.UsageError(f"{app!r} names a file, not a module; did you mean {_module_of(module_name)}:{names}?")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: object = _imported(module_name)
    path, hint = f"{module_name}:", ""
    for name in names.split("."):
        holder, hint = found, _instead(found, path)
        if not hasattr(holder, name):
            raise click.UsageError(f"{module_name} has no {names!r}{hint}")
        found, path = getattr(holder, name), f"{path}{name}."
    if not isinstance(found, Rowcall):
        raise click.UsageError(f"{app} is of type {type(found).__name__}, not Rowcall{hint}")
    return found


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
            raise click.UsageError(f"there is no module {error.name!r} in {os.getcwd()} or installed") from None
        raise click.UsageError(_import_failure(name, error)) from error
    except (Exception, SystemExit) as error:
        raise click.UsageError(_import_failure(name, error)) from error


def _import_failure(name: str, error: BaseException) -> str:
    said = f"importing {name} failed: {type(error).__name__}: {error}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) or not frames or frames[-1].filename == __file__:
        return said
    place = next((frame for frame in reversed(frames) if _is_of_the_app(frame.filename)), frames[-1])
    return f"{said} ({place.filename}, line {place.lineno}); for the traceback: python -c 'import {name}'"


def _is_of_the_app(filename: str) -> bool:
    """Neither Rowcall's, nor Python's own, nor installed."""
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = {os.path.realpath(at) for at in (_ROWCALL, *map(sysconfig.get_path, kinds))}
    real = os.path.realpath(filename)
    return os.path.isfile(real) and not any(real.startswith(f"{at}{os.sep}") for at in libraries)


def _instead(holder: object, path: str) -> str:
    """The queues that stand beside a wrong name; private ones only where there is no other."""
    names = sorted(name for name, value in getattr(holder, "__dict__", {}).items() if isinstance(value, Rowcall))
    names = [name for name in names if not name.startswith("_")] or names
    return f"; did you mean {' or '.join(f'{path}{name}' for name in names)}?" if names else ""
