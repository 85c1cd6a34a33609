from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run


def test_a_folder_that_is_not_there_is_wrong_use(run: Run, folder: Path) -> None:
    result = run("bench", "--folder", str(folder / "nowhere"))
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
