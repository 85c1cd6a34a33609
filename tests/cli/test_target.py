from __future__ import annotations

from pathlib import Path

import click
import pytest

from rowcall import Rowcall, SchemaMismatch, StoreUnavailable
from rowcall.app import queue_of
from rowcall.cli.command import job_ids, optional_job_ids, split_app
from rowcall.cli.load import load
from rowcall.cli.target import Target, existing, find
from rowcall.store.sqlite.dialect import SqliteDialect


def test_an_app_is_imported_from_the_current_folder(app: Path) -> None:
    assert queue_of(load("app:jobs")).config.path == "queue.db"
    assert load("app:Holder.inner") is load("app:jobs")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("app", "'app' is not an app; write module:name, such as app:jobs"),
        (":jobs", "':jobs' is not an app"),
        ("app:", "'app:' is not an app"),
        ("nowhere:jobs", "there is no module 'nowhere' in "),
        ("app.inner:jobs", "there is no module 'app.inner' in "),
        ("app:queue", "app has no 'queue'; did you mean app:jobs?"),
        ("app:number", "app:number is of type int, not Rowcall; did you mean app:jobs?"),
        ("app:hello", "app:hello is of type Task, not Rowcall; did you mean app:jobs?"),
        ("app:Holder.outer", "app has no 'Holder.outer'; did you mean app:Holder.inner?"),
        ("app.py:jobs", "'app.py:jobs' names a file, not a module; did you mean app:jobs?"),
        ("./shop/app.py:jobs", "'./shop/app.py:jobs' names a file, not a module; did you mean shop.app:jobs?"),
        ("shop/app:jobs", "'shop/app' is not a module; did you mean shop.app?"),
    ],
)
def test_a_wrong_app_says_what_is_wrong(app: Path, name: str, problem: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        load(name)
    assert caught.value.message.startswith(problem)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import no_such_package", "importing wrong failed: ModuleNotFoundError: No module named 'no_such_package'"),
        ("x = 1\n1 / 0", "importing wrong failed: ZeroDivisionError: division by zero ("),
        ("def (", "importing wrong failed: SyntaxError: "),
        ("raise SystemExit(3)", "importing wrong failed: SystemExit: 3"),
    ],
)
def test_an_app_that_cannot_be_imported_says_why_and_where(folder: Path, source: str, problem: str) -> None:
    (folder / "wrong.py").write_text(source)
    with pytest.raises(click.UsageError) as caught:
        load("wrong:jobs")
    assert caught.value.message.startswith(problem)
    assert "line" in caught.value.message


def test_public_names_are_hinted_at_before_private_ones(app: Path, folder: Path) -> None:
    (folder / "two.py").write_text("from app import jobs\n_inner = jobs\nnumber = 7\n")
    (folder / "private.py").write_text("import app\n_inner = app.jobs\nnumber = 7\n")
    for module, hint in (("two", "two:jobs"), ("private", "private:_inner")):
        with pytest.raises(click.UsageError) as caught:
            load(f"{module}:number")
        assert caught.value.message.endswith(f"; did you mean {hint}?")


def test_an_import_that_fails_deep_in_a_library_names_the_line_of_the_app(folder: Path) -> None:
    (folder / "deep.py").write_text("import json\njson.loads('{')\n")
    with pytest.raises(click.UsageError) as caught:
        load("deep:jobs")
    assert f"({folder / 'deep.py'}, line 2)" in caught.value.message
    assert caught.value.message.endswith("python -c 'import deep'")


def test_an_option_that_rowcall_refuses_names_the_line_of_the_app(folder: Path) -> None:
    (folder / "refused.py").write_text(
        "from rowcall import Rowcall\njobs = Rowcall('sqlite:///a.db', durability='no')\n"
    )
    with pytest.raises(click.UsageError) as caught:
        load("refused:jobs")
    assert f"({folder / 'refused.py'}, line 2)" in caught.value.message


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


def test_ids_may_follow_an_app() -> None:
    assert split_app(("app:jobs", "7"), None) == ("app:jobs", ("7",))
    assert split_app(("7",), None) == (None, ("7",))
    assert split_app(("a:b", "7"), "sqlite:///given.db") == (None, ("a:b", "7"))
    assert job_ids(("7", "8", "7")) == [7, 8]
    assert optional_job_ids(()) == []
    for words in ((), ("app", "7"), ("0",), ("-1",), ("²",), ("9" * 19,), ("7", "app:jobs")):
        with pytest.raises(click.UsageError):
            job_ids(words)


def test_a_command_is_named_as_it_is_typed(queue: Rowcall) -> None:
    assert Target(queue, "app:jobs").command("migrate") == "rowcall migrate app:jobs"
    assert Target(queue, url="sqlite:///my app.db").command("resume", "mail") == (
        "rowcall resume --url 'sqlite:///my app.db' mail"
    )
