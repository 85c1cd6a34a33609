from __future__ import annotations

import shlex
import sys
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
        ("queue.db", "'queue.db' is a file, not an app; to look at a database: --url sqlite:///queue.db"),
        ("sqlite:///queue.db", "APP must be module:name, such as app:jobs; a URL belongs in the app, or after --url"),
        ("nowhere:jobs", "there is no module 'nowhere' in "),
        ("app.inner:jobs", "there is no module 'app.inner' in "),
        ("app:queue", "app has no 'queue'; did you mean app:jobs?"),
        ("app:number", "app:number is of type int, not Rowcall; did you mean app:jobs?"),
        ("app:hello", "app:hello is of type Task, not Rowcall; did you mean app:jobs?"),
        ("app:Holder", "app:Holder is of type type, not Rowcall; did you mean app:Holder.inner?"),
        ("app:Holder.outer", "app has no 'Holder.outer'; did you mean app:Holder.inner?"),
        ("app.py:jobs", "'app.py:jobs' names a file, not a module; did you mean app:jobs?"),
        ("./shop/app.py:jobs", "'./shop/app.py:jobs' names a file, not a module; did you mean shop.app:jobs?"),
        ("shop/app:jobs", "'shop/app' is not a module; did you mean shop.app?"),
    ],
)
def test_a_wrong_app_says_what_is_wrong(app: Path, name: str, problem: str) -> None:
    app.with_name("queue.db").touch()
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


def test_what_is_declared_last_is_declared_before_a_command_uses_the_app(app: Path) -> None:
    queue, calls = queue_of(load("app:jobs")), list[int]()
    queue.declared.last.append(lambda: calls.append(1))
    load("app:jobs")
    assert (calls, queue.declared.last) == ([1], [])
    queue.declared.last.append(lambda: calls.append(1 // 0))
    for _ in range(2):
        with pytest.raises(click.UsageError, match="the last declarations of app:jobs failed: ZeroDivisionError"):
            load("app:jobs")


def test_an_import_that_fails_deep_in_a_library_names_the_line_of_the_app(folder: Path) -> None:
    (folder / "deep.py").write_text("import json\njson.loads('{')\n")
    with pytest.raises(click.UsageError) as caught:
        load("deep:jobs")
    assert f"({folder / 'deep.py'}, line 2)" in caught.value.message
    assert caught.value.message.endswith(f"{shlex.quote(sys.executable)} -c 'import deep'")


def test_an_option_that_rowcall_refuses_names_the_line_of_the_app(folder: Path) -> None:
    (folder / "refused.py").write_text(
        "from rowcall import Rowcall\njobs = Rowcall('sqlite:///a.db', durability='no')\n"
    )
    with pytest.raises(click.UsageError) as caught:
        load("refused:jobs")
    assert f"({folder / 'refused.py'}, line 2)" in caught.value.message


PACKAGE = {
    "__init__.py": "",
    "app.py": "from rowcall import Rowcall\njobs = Rowcall('sqlite:///queue.db')\n",
    "tasks.py": "of_the_package",
    "mail/tasks.py": "of_a_folder",
    "reports/__init__.py": "",
    "reports/tasks/__init__.py": "of_a_package_of_tasks",
    "reports/tasks/inner.py": "not_by_itself",
    "deep/er/tasks.py": "too_deep",
    "not-a-name/tasks.py": "no_module",
}


def write_package(folder: Path, **more: str) -> None:
    for name, text in {**PACKAGE, **more}.items():
        path = folder / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        declared = f"from shop.app import jobs\n@jobs.task\ndef {text}() -> None: ...\n"
        path.write_text(declared if text.isidentifier() else text)


def test_the_tasks_modules_of_a_package_are_imported(folder: Path) -> None:
    write_package(folder)
    (folder / "extra.py").write_text("from shop.app import jobs\n@jobs.task\ndef extra() -> None: ...\n")
    found = queue_of(load("shop.app:jobs")).declared.tasks
    assert sorted(found) == ["of_a_folder", "of_a_package_of_tasks", "of_the_package"]
    assert load("shop.app:jobs", ["extra"]).declared_task("extra").name == "extra"


def test_an_app_that_is_a_package_has_its_tasks_modules_imported(folder: Path) -> None:
    write_package(folder, **{"__init__.py": "from shop.app import jobs\n"})
    assert len(queue_of(load("shop:jobs")).declared.tasks) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 / 0\n", "importing shop.mail.tasks failed: ZeroDivisionError: division by zero ("),
        ("def (\n", "importing shop.mail.tasks failed: SyntaxError: "),
        ("import nothing_of_that_name\n", "importing shop.mail.tasks failed: ModuleNotFoundError: "),
    ],
)
def test_a_tasks_module_that_cannot_be_imported_is_an_error(folder: Path, text: str, problem: str) -> None:
    write_package(folder, **{"mail/tasks.py": text})
    with pytest.raises(click.UsageError) as caught:
        load("shop.app:jobs")
    assert caught.value.message.startswith(problem)


def test_a_module_to_import_that_does_not_exist_is_an_error(app: Path) -> None:
    with pytest.raises(click.UsageError, match="there is no module 'nowhere'"):
        load("app:jobs", ["nowhere"])
