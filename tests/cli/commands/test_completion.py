from __future__ import annotations

import shutil
import subprocess

import pytest

from rowcall.cli.commands.completion import SHELLS
from tests.cli.conftest import Run


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(run: Run, shell: str) -> None:
    script = run("completion", shell).stdout
    assert "_ROWCALL_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, capture_output=True)


def test_an_unknown_shell(run: Run) -> None:
    result = run("completion", "tcsh")
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr
