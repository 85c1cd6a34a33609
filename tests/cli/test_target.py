from __future__ import annotations

from pathlib import Path

import click
import pytest

from rowcall import Rowcall, SchemaMismatch, StoreUnavailable
from rowcall.cli.target import Target, existing, find
from rowcall.store.sqlite.dialect import SqliteDialect


def test_the_database_is_found_by_app_url_environment_and_default(
    app: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find(None, None).queue.database.path == str(folder / "rowcall.db")
    monkeypatch.setenv("ROWCALL_URL", "sqlite:///other.db")
    assert find(None, None).queue.database.path == str(folder / "other.db")
    assert find(None, "sqlite:///given.db").queue.database.path == str(folder / "given.db")
    assert find("app:jobs", None).queue.database.path == str(folder / "queue.db")
    with pytest.raises(click.UsageError):
        find("app:jobs", "sqlite:///given.db")
    with pytest.raises(
        click.UsageError, match=r"^--url: 'given.db' is not a URL; for a file write sqlite:///given.db$"
    ):
        find(None, "given.db")
    monkeypatch.setenv("ROWCALL_URL", "other.db")
    with pytest.raises(click.UsageError, match=r"^\$ROWCALL_URL: 'other.db' is not a URL"):
        find(None, None)


def test_looking_makes_neither_a_file_nor_tables(app: Path, folder: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no file"):
        existing("app:jobs", None)
    with pytest.raises(StoreUnavailable, match="set ROWCALL_URL"):
        existing(None, None)
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["app.py"]
    (folder / "queue.db").touch()
    with pytest.raises(StoreUnavailable, match="has no tables named rowcall_"):
        existing("app:jobs", None)
    with pytest.raises(StoreUnavailable, match=r"Create them with: rowcall migrate app:jobs$"):
        existing("app:jobs", None)
    with pytest.raises(StoreUnavailable, match=r"rowcall migrate --url sqlite:///queue\.db; if the app sets"):
        existing(None, "sqlite:///queue.db")
    assert (folder / "queue.db").stat().st_size == 0
    (folder / "queue.db").write_text("this is not a database, whatever its name says" * 50)
    with pytest.raises(StoreUnavailable, match="is not a SQLite database"):
        existing("app:jobs", None)


def test_looking_never_migrates(queue: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not existing("app:jobs", None).queue.config.auto_migrate
    monkeypatch.setattr(SqliteDialect, "newest_version", 99)
    with pytest.raises(SchemaMismatch, match=r"run: rowcall migrate app:jobs$"):
        existing("app:jobs", None)


def test_a_queue_in_memory_cannot_be_looked_at() -> None:
    with pytest.raises(StoreUnavailable, match="memory of the process that opened it"):
        existing(None, "sqlite:///:memory:")


def test_a_command_is_named_as_it_is_typed(queue: Rowcall) -> None:
    assert Target(queue, "app:jobs").command("migrate") == "rowcall migrate app:jobs"
    assert Target(queue, url="sqlite:///my app.db").command("resume", "mail") == (
        "rowcall resume --url 'sqlite:///my app.db' mail"
    )
