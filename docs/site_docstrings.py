"""Show doctests as code, and options as a list, in the API reference of the site."""

from __future__ import annotations

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
