"""Show doctests as code, options as a list, and methods made of operations, in the API reference of the site."""

from __future__ import annotations

import ast
import builtins
import pkgutil
import re
from typing import Any

import griffe

import rowcall

DOCTEST = re.compile(r"^(>>> .*(?:\n\S.*| .*)*)", re.MULTILINE)
OPTIONS = re.compile(r"^Options:\n((?: {4}.*\n?)+)", re.MULTILINE)
OPTION = re.compile(r"^ {4}(\w[\w, ]*): ", re.MULTILINE)


def as_markdown(docstring: str) -> str:
    """
    >>> print(as_markdown("Add.\\n\\nOptions:\\n    by: how much."))
    Add.
    <BLANKLINE>
    Options:
    <BLANKLINE>
    - `by`: how much.
    """
    shown = DOCTEST.sub(r"```pycon\n\1\n```", docstring)
    return OPTIONS.sub(lambda options: "Options:\n\n" + OPTION.sub(r"- `\1`: ", options[1]), shown)


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Leave out how a class is made if only Rowcall makes it, and what it is derived from if that is not public."""
        made_by = cls.members.get("__init__")
        if isinstance(made_by, griffe.Function) and any(str(one.annotation) == "Queue" for one in made_by.parameters):
            cls.del_member("__init__")
        cls.bases = [base for base in cls.bases if str(base) in rowcall.__all__ or hasattr(builtins, str(base))]

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Show the values of defaults, not the names of constants."""
        for parameter in func.parameters:
            if isinstance(parameter.default, griffe.ExprName) and parameter.default.name.startswith("DEFAULT_"):
                parameter.default = repr(pkgutil.resolve_name(parameter.default.canonical_path))

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Add the methods that `Rowcall` takes from operations."""
        app = pkg["app"]
        for node in ast.walk(ast.parse(app.source)):
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=twin)])], value=value):
                    add_pair(app, name, twin, value)


def add_pair(app: griffe.Module, name: str, twin: str, value: ast.expr) -> None:
    """Add a method and its async twin: `both(operation, note)`, also in a cast to overloads, or a function for each."""
    match value:
        case ast.Call(func=ast.Name(id="cast"), args=[_, pair]):
            add_pair(app, name, twin, pair)
        case ast.Call(func=ast.Name(id="both"), args=[ast.Attribute(ast.Name(module), attr), *notes]):
            operation = app[module][attr]
            note = "".join(f" {ast.literal_eval(one)}" for one in notes)
            returns = operation.returns.slice
            add_method(app["Rowcall"], name, operation, returns, operation.docstring.value)
            add_method(app["Rowcall"], twin, operation, returns, f"`{name}`, for async code.{note}")
            app["Rowcall"][twin].labels.add("async")
        case ast.Tuple(elts=[ast.Attribute(ast.Name(), _), ast.Attribute(ast.Name(), _)] as functions):
            for method, function in zip((name, twin), functions, strict=True):
                operation = app[function.value.id][function.attr]
                add_method(app["Rowcall"], method, operation, operation.returns, operation.docstring.value)


def add_method(owner: griffe.Class, name: str, operation: griffe.Function, returns: Any, text: str) -> None:
    """Add a method with the parameters of an operation."""
    itself = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    parameters = griffe.Parameters(itself, *list(operation.parameters)[1:])
    method = griffe.Function(name, parameters=parameters, returns=returns, lineno=operation.lineno)
    method.docstring = griffe.Docstring(text, parent=method)
    owner.set_member(name, method)
