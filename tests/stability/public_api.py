"""What users type, as plain data: names, parameters, fields, commands, options and endpoints.

`python -m tests.stability.public_api` writes it for the version of the package: see RELEASING.md.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import msgspec

from rowcall.cli.main import COMMANDS, Commands
from rowcall.domain.config import VERSION
from rowcall.http.api.openapi import document
from rowcall.http.api.table import ENDPOINTS

FOLDER = Path(__file__).parent
MODULES = (
    "rowcall",
    "rowcall.testing",
    "rowcall.push",
    "rowcall.middleware",
    "rowcall.fastapi",
    "rowcall.flask",
    "rowcall.litestar",
    "rowcall.pydantic_ai",
    "rowcall.sqlalchemy",
    "rowcall.starlette",
    "rowcall.compat.celery",
)

Api = dict[str, list[str]]
"""For each name its parameters: `name` in its place, `*name` by keyword, `=` if it may be left out."""


def public_api() -> Api:
    """Return the API of the code as it is."""
    api: Api = {}
    for name in MODULES:
        api |= _module(importlib.import_module(name))
    group = Commands("rowcall")
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        api |= _command(f"$ rowcall {name}", command)
    for path, operations in document(ENDPOINTS, "")["paths"].items():
        for method, operation in operations.items():
            given = operation.get("parameters", ())
            api[f"{method.upper()} {path}"] = sorted(
                f"*{one['name']}{'' if one.get('required') else '='}" for one in given
            )
    return api


def _module(module: ModuleType) -> Iterator[tuple[str, list[str]]]:
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, type):
            yield from _class(f"{module.__name__}.{name}", value)
        elif not isinstance(value, ModuleType):
            yield f"{module.__name__}.{name}", _parameters(value) if callable(value) else []


def _class(path: str, kind: type) -> Iterator[tuple[str, list[str]]]:
    fields = _fields(kind)
    yield path, _parameters(kind) if fields is None else []
    for field in fields or ():
        yield f"{path}.{field}", []
    for name in dir(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        if name.startswith("_") or name in (fields or ()) or not owner.__module__.startswith("rowcall"):
            continue
        value = inspect.getattr_static(kind, name)
        given = getattr(kind, name)
        yield f"{path}.{name}", _parameters(given) if callable(given) and not isinstance(value, property) else []


def _fields(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a value, of a dictionary or of an enumeration."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if issubclass(kind, enum.Enum):
        return tuple(kind.__members__)
    return tuple(typing.get_type_hints(kind)) if typing.is_typeddict(kind) else None


def _parameters(function: Any) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # inherited from a class that is written in C
        return []
    return [said for one in signature.parameters.values() if one.name not in ("self", "cls") for said in _said(one)]


def _said(parameter: inspect.Parameter) -> list[str]:
    end = "" if parameter.default is parameter.empty else "="
    match parameter.kind:
        case parameter.KEYWORD_ONLY:
            return [f"*{parameter.name}{end}"]
        case parameter.VAR_POSITIONAL:
            return ["*"]
        case parameter.VAR_KEYWORD:
            return ["**"]
    return [f"{parameter.name}{end}"]


def _command(path: str, command: click.Command) -> Iterator[tuple[str, list[str]]]:
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    yield path, sorted(f"*{name}{'' if one.required else '='}" for one in options for name in one.opts)
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _command(f"{path} {name}", below)


def broken(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> list[str]:
    """Return what a user of the API `before` may type, and the one `after` does not take."""
    problems = []
    for path, parameters in before.items():
        if path not in after:
            problems.append(f"{path} is gone")
        else:
            problems += [f"{path}: {problem}" for problem in _differences(parameters, after[path])]
    return problems


def _differences(before: list[str], after: list[str]) -> Iterator[str]:
    places = [one.rstrip("=") for one in before if not one.startswith("*")]
    kept = [one.rstrip("=") for one in after if not one.startswith("*")]
    if kept[: len(places)] != places:
        yield f"the parameters in their places were {places} and are {kept}"
    optional = {one.strip("*=") for one in before if one.endswith("=")}
    known = {one.strip("*=") for one in before}
    there = {one.strip("*=") for one in after}
    for name in sorted(known - there - set(places)):
        yield f"the parameter {name!r} is gone"
    for one in after:
        name = one.strip("*=")
        if name and not one.endswith("=") and (name in optional or name not in known):
            yield f"the parameter {name!r} must be given now"


def stored(version: str) -> Api:
    """Return the API of a version that was released."""
    return msgspec.json.decode((FOLDER / f"{version}.json").read_bytes(), type=Api)


if __name__ == "__main__":
    release = ".".join(VERSION.split(".")[:2])
    text = json.dumps(public_api(), indent=1, sort_keys=True)
    (FOLDER / f"{release}.json").write_text(text + "\n")
