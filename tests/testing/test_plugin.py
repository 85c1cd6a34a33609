"""The pytest plugin, in a run of pytest for an app that says nothing about it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import pytest_rowcall

APP = """
from rowcall import Rowcall

jobs = Rowcall("sqlite:////nowhere/at/all.db")
sent = []

@jobs.task
def send_email(to: str) -> None:
    sent.append(to)
"""
TESTS = """
import pytest
from app import jobs, send_email, sent
from rowcall.testing import assert_enqueued

@pytest.fixture(autouse=True)
def clean(rowcall_clean):
    sent.clear()

@pytest.mark.parametrize("time", [1, 2])
def test_each_test_begins_with_an_empty_queue(time):
    assert send_email.enqueue("a").id == 1
    assert_enqueued(send_email, to="a")
    assert sent == []

def test_time(rowcall_clock):
    send_email.using(delay=86_400).enqueue("a")
    rowcall_clock.advance("1 day")
    assert sent == ["a"]

def test_inline(rowcall_inline):
    assert rowcall_inline == [jobs]
    assert send_email.enqueue("a").status == "succeeded"

def test_that_fails():
    assert_enqueued(send_email, to="b")
"""


def run(folder: Path) -> str:
    """Run pytest with this plugin alone: loading all others takes seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_rowcall", "-p", "no:cacheprovider"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, timeout=60).stdout


def test_it_is_on_when_rowcall_is_installed() -> None:
    installed = {entry.name: entry.value for entry in entry_points(group="pytest11")}
    assert installed["pytest_rowcall"] == "pytest_rowcall"


def test_fixtures_for_the_queue_of_an_app(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "test_app.py").write_text(TESTS)
    said = run(tmp_path)
    assert "1 failed, 4 passed" in said
    assert "E       AssertionError: no job was enqueued as send_email(to='b')" in said
    assert "assertions.py" not in said  # the failure is shown where the test made the call


def test_the_queues_can_be_named_and_their_place_chosen(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nrowcall_app = app:jobs\n")
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "test_app.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def rowcall_url(tmp_path): return f'sqlite:///{tmp_path}/test.db'\n"
        "def test_file(rowcall_clean, tmp_path):\n"
        "    rowcall_clean[0].enqueue('send_email', {'to': 'a'})\n"
        "    assert (tmp_path / 'test.db').exists()\n"
    )
    assert "1 passed" in run(tmp_path)


def test_a_run_without_the_fixtures_does_not_import_rowcall(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text(
        "import sys\n"
        "def test_imports(): assert not [name for name in sys.modules if name.split('.')[0] == 'rowcall']\n"
        "def test_no_queue(rowcall_clean): ...\n"
    )
    said = run(tmp_path)
    assert "1 passed" in said
    assert "no imported module has a variable that is a Rowcall" in said


def test_a_name_that_is_wrong_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_of_plugin.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder is added to it
    with pytest.raises(pytest.UsageError, match=r"has no 'job'; did you mean shop_of_plugin:jobs\?"):
        pytest_rowcall._load("shop_of_plugin:job")
    del sys.modules["shop_of_plugin"]
