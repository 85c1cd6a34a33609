from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rowcall.drivers.side_files import advice_on_rights, make_folder, open_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("database_mode", "folder_mode"), [(0o600, 0o700), (0o640, 0o750), (0o664, 0o775)])
def test_a_folder_gets_the_permissions_of_the_database(tmp_path: Path, database_mode: int, folder_mode: int) -> None:
    database, folder = tmp_path / "app.db", tmp_path / "app.db-rowcall"
    database.touch()
    database.chmod(database_mode)
    make_folder(str(folder), str(database))
    assert mode_of(folder) & 0o777 == folder_mode
    folder.chmod(0o700)
    make_folder(str(folder), str(database))
    assert mode_of(folder) == 0o700  # an existing folder is left unchanged


def test_a_file_gets_the_permissions_of_the_database(tmp_path: Path) -> None:
    database, path = tmp_path / "app.db", tmp_path / "file"
    database.touch()
    database.chmod(0o640)
    os.close(open_file(str(path), str(database)))
    assert mode_of(path) == 0o640
    path.chmod(0o600)
    os.close(open_file(str(path), str(database)))
    assert mode_of(path) == 0o600


def test_without_a_database_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "rowcall-0"
    make_folder(str(folder), "")
    make_folder(str(folder), "")
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="others can change it"):
        make_folder(str(folder), "")


def test_the_advice_names_the_owner_and_the_command(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert advice_on_rights(str(tmp_path)).endswith(f"mode 500: chmod u+rwx {tmp_path}")
    finally:
        tmp_path.chmod(0o700)
    assert advice_on_rights(str(tmp_path)).endswith("is its file system read-only?")
