"""Files and folders that cannot be used: a clear error, and nothing changed."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall, StoreUnavailable
from tests.support import PythonProcess

# permissions mean nothing to root: the child changes to another user once it has imported what it needs
AS_NOBODY = """
import os, sys
from rowcall import Rowcall, StoreUnavailable
with Rowcall("sqlite:///:memory:") as warm_up:
    warm_up.enqueue("task")
    warm_up.list()
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
jobs = Rowcall(f"sqlite:///{sys.argv[1]}", busy_timeout=0.5)
for use in (lambda: jobs.enqueue("task"), lambda: jobs.enqueue("task")):
    try:
        use()
    except StoreUnavailable as error:
        print("refused:", error, flush=True)
    else:
        print("written", flush=True)
jobs.close()
"""

SHELL_OF_NOBODY = """
import contextlib, os, sys
import rowcall.cli.commands.work
from app import jobs
from rowcall.cli.main import main
with contextlib.redirect_stdout(open(os.devnull, "w")), contextlib.suppress(SystemExit):
    main(["doctor", "--url", "sqlite:///:memory:", "--json"])
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
main(sys.argv[1:])
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can reach, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="rowcall-test-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


def as_another_user(path: Path) -> list[str]:
    with PythonProcess("-c", AS_NOBODY, str(path)) as process:
        assert process.wait() == 0, process.output
        return process.output.splitlines()


def with_one_job(path: Path) -> Path:
    with Rowcall(path) as jobs:
        jobs.enqueue("before")
    return path


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        (number,) = connection.execute("select count(*) from rowcall_job").fetchone()
        return int(number)


def calls(jobs: Rowcall) -> list[Callable[[], object]]:
    return [lambda: jobs.enqueue("task"), jobs.list, jobs.drain, jobs.migrate, lambda: jobs.dequeue("me")]


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    text = b"I am a text file.\n" * 200
    path.write_bytes(text)
    with Rowcall(path) as jobs:
        for call in calls(jobs):
            with pytest.raises(StoreUnavailable, match="is not a SQLite database") as caught:
                call()
            assert str(path) in str(caught.value)
            assert "Check the path; nothing was changed" in str(caught.value)
    assert path.read_bytes() == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["app.db"]


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "no" / "such" / "app.db") as jobs:
        for call in calls(jobs):
            with pytest.raises(StoreUnavailable) as caught:
                call()
            assert f"the folder {tmp_path}/no/such does not exist" in str(caught.value)
            assert "Create it first, or check the path" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_it_works_once_the_folder_is_made(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "data" / "app.db") as jobs:
        with pytest.raises(StoreUnavailable):
            jobs.enqueue("task")
        (tmp_path / "data").mkdir()
        assert jobs.enqueue("task").id == 1


def test_a_folder_instead_of_the_file(tmp_path: Path) -> None:
    with Rowcall(tmp_path) as jobs, pytest.raises(StoreUnavailable, match="is a folder, not a file"):
        jobs.enqueue("task")


def test_a_read_only_file_in_a_read_only_folder(folder: Path) -> None:
    path = with_one_job(folder / "app.db")
    path.chmod(0o444)
    folder.chmod(0o555)
    assert_refused(as_another_user(path), path)
    assert count(path) == 1


def test_a_read_only_file_in_a_writable_folder(folder: Path) -> None:
    path = with_one_job(folder / "app.db")
    path.chmod(0o444)
    assert_refused(as_another_user(path), path)
    assert count(path) == 1


def test_a_writable_file_in_a_read_only_folder(folder: Path) -> None:
    path = with_one_job(folder / "app.db")
    path.chmod(0o666)
    folder.chmod(0o555)
    assert_refused(as_another_user(path), path)
    assert count(path) == 1


def test_a_new_file_in_a_read_only_folder(folder: Path) -> None:
    folder.chmod(0o555)
    assert_refused(as_another_user(folder / "app.db"), folder / "app.db")
    assert list(folder.iterdir()) == []


def test_a_side_folder_of_another_user(folder: Path) -> None:
    path = with_one_job(folder / "app.db")
    path.chmod(0o666)
    side = folder / "app.db-rowcall"
    side.chmod(0o555)
    for file in side.iterdir():
        file.chmod(0o400)
    told, *said = as_another_user(path)
    assert "writers wait less fairly" in told
    assert said == ["written", "written"]
    assert count(path) == 3


@pytest.mark.parametrize(
    "words",
    [("work", "app:jobs"), ("work", "app:jobs", "--processes=2"), ("doctor", "app:jobs", "--json")],
    ids=["one process", "several", "the doctor"],
)
def test_a_worker_in_a_side_folder_of_another_user(folder: Path, words: tuple[str, ...]) -> None:
    path = with_one_job(folder / "app.db")
    path.chmod(0o666)
    side = folder / "app.db-rowcall"
    side.chmod(0o555)
    (folder / "app.py").write_text("from rowcall import Rowcall\njobs = Rowcall('sqlite:///app.db')\n")
    with PythonProcess("-c", SHELL_OF_NOBODY, *words, cwd=str(folder)) as process:
        assert process.wait() == 1, process.output
        assert f"{side} cannot be written by this user" in process.output
        assert f"It belongs to user {side.stat().st_uid}, mode 555" in process.output
        assert "worker process 1" not in process.output
    assert count(path) == 1


def test_with_permission_it_works(folder: Path) -> None:
    assert as_another_user(folder / "app.db") == ["written", "written"]
    assert count(folder / "app.db") == 2


def assert_refused(said: list[str], path: Path) -> None:
    said = [line for line in said if not line.startswith("cannot open the files next to")]
    assert len(said) == 2
    for line in said:
        assert line.startswith("refused: ")
        assert str(path) in line
        assert "read-only for this user" in line or "no permission" in line or "ermission" in line
        assert "writable" in line or "able to write" in line or "Check their permissions" in line
