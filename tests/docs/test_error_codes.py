"""The tables of error codes match the code."""

from __future__ import annotations

import builtins
import pkgutil
import re
import sqlite3

from rowcall.declare.failures import SCRUBBING_FAILED
from rowcall.domain import error_codes
from rowcall.domain.failure import DEFAULT_TRACEBACK_LIMIT
from tests.docs.pages import DOCS, read, section

PAGE = DOCS / "errors.md"


def table(head: str) -> dict[str, str]:
    """Return the names in the second column of the table with that head, each with the code of its row."""
    _, mark, rest = section(PAGE, "Codes of exceptions").partition(f"\n| code | {head} |\n| --- | --- |\n")
    assert mark, head
    rows = [line.split(" | ") for line in rest.partition("\n\n")[0].splitlines()]
    return {name: row[0].strip("| `") for row in rows for name in re.findall(r"`([^`]+)`", row[1])}


def full_name(shown: str) -> str:
    """Return the full name of a class that the page names."""
    kind: type = getattr(builtins, shown, None) or pkgutil.resolve_name(shown)
    return f"{kind.__module__}.{kind.__qualname__}"


def test_the_classes_exist_and_match_the_code() -> None:
    shown = table("exceptions, and those derived from them")
    assert {full_name(name): code for name, code in shown.items()} == error_codes.BY_TYPE


def test_the_errno_table_matches_the_code() -> None:
    assert table("`errno`") == error_codes.BY_ERRNO


def test_the_sqlite_table_matches_the_code() -> None:
    assert {getattr(sqlite3, name): code for name, code in table("SQLite").items()} == error_codes.BY_SQLITE_CODE


def test_the_sqlstate_table_matches_the_code() -> None:
    assert table("SQLSTATE") == error_codes.BY_SQLSTATE


def test_every_wrapper_and_inspected_class_is_named() -> None:
    page = read(PAGE)
    for name in (*error_codes._ASKED, *error_codes._WRAPPERS):
        library, kind = name.split(".")[0], name.split(".")[-1]
        assert kind in page or library in page, name
        pkgutil.resolve_name(name)


def test_the_limits_match_the_code() -> None:
    assert f"at most {DEFAULT_TRACEBACK_LIMIT:,} characters" in section(PAGE, "Tracebacks")
    assert f"| `traceback_limit` | `{DEFAULT_TRACEBACK_LIMIT}` |" in read(DOCS / "getting-started.md")
    assert f"`{SCRUBBING_FAILED}`" in section(PAGE, "Secrets")
