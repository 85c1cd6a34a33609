from __future__ import annotations

from pathlib import Path

import click
import pytest

from rowcall.app import queue_of
from rowcall.cli.load import load


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
