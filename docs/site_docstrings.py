"""Show doctests as code, options as a list, and the methods of `both(…)`, in the API reference of the site."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

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

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Add the methods that `Rowcall` declares as `get, aget = both(operation)`."""
        app = pkg["app"]
        for node in ast.walk(ast.parse(app.source)):
            match node:
                case ast.Assign(
                    targets=[ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=twin)])],
                    value=ast.Call(func=ast.Name(id="both"), args=[ast.Attribute(ast.Name(module), attr), *notes]),
                ):
                    operation = app[module][attr]
                    note = "".join(f" {ast.literal_eval(one)}" for one in notes)
                    add_method(app["Rowcall"], name, node.lineno, operation, operation.docstring.value)
                    add_method(app["Rowcall"], twin, node.lineno, operation, f"`{name}`, for async code.{note}")
                    app["Rowcall"][twin].labels.add("async")


def add_method(owner: griffe.Class, name: str, lineno: int, operation: griffe.Function, text: str) -> None:
    """Add a method with the parameters of an operation, and what the operation returns in the end."""
    itself = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    parameters = griffe.Parameters(itself, *list(operation.parameters)[1:])
    method = griffe.Function(name, parameters=parameters, returns=operation.returns.slice, lineno=lineno)
    method.docstring = griffe.Docstring(text, parent=method)
    owner.set_member(name, method)
