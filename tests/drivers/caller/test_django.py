"""Connections of Django: its aliases, and async code."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rowcall import InvalidOption
from rowcall.testing.process import PythonProcess
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.queue_site import Case, Site
from tests.drivers.caller.test_kinds import refusal


def test_the_error_for_an_unknown_alias_of_django_names_the_known_ones(sqlite_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["django-sqlite-alias"], *sqlite_sites)

    async def scenario(mine: Caller) -> None:
        said = refusal(case.site, "nothing")
        assert "'nothing' is not an alias" in said
        assert "default" in said
        assert "other" in said
        assert "secret" not in refusal(case.site, "postgresql://me:secret@host/database")

    case.run(scenario)


PROGRAM = """
import sqlite3, sys
from rowcall import InvalidOption, Rowcall
with Rowcall(sys.argv[1]) as jobs:
    for text in ("default", "postgresql://me:secret@host/database"):
        try:
            jobs.enqueue("task", connection=text)
        except InvalidOption as error:
            print(error)
assert "django" not in sys.modules
"""


def test_an_alias_without_django(tmp_path: Path) -> None:
    with PythonProcess("-c", PROGRAM, f"sqlite:///{tmp_path}/app.db") as process:
        assert process.wait() == 0, process.output
        lines = process.output.splitlines()
    assert len(lines) == 2
    assert "Django is not loaded" in lines[0]
    assert "secret" not in lines[1]


def test_the_error_for_django_in_async_code_says_what_to_do(sqlite_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["django-sqlite-wrapper"], *sqlite_sites)

    async def scenario(mine: Caller) -> None:
        async def beside_a_loop() -> None:
            with pytest.raises(InvalidOption, match="async"):
                case.send(mine).enqueue("a")
            with pytest.raises(InvalidOption, match="async"):
                await case.send(mine).aenqueue("a")

        asyncio.run(beside_a_loop())

    case.run(scenario)
