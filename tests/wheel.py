"""The wheel that a release would upload, built once for all processes of a test run."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT


def built_wheel(shared: Path) -> Path:
    """Build the wheel in a folder that all processes of the run share, unless another one has; return its path."""
    shared.mkdir(parents=True, exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (found := list(shared.glob("*.whl"))):
            command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(shared), str(ROOT)]
            subprocess.run(command, check=True, capture_output=True, timeout=100)
            found = list(shared.glob("*.whl"))
    (wheel,) = found
    return wheel


def unpacked(wheel: Path) -> Path:
    """Return a folder with what the wheel installs, without what it depends on."""
    folder = wheel.parent / "unpacked"
    with (wheel.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel)]
            subprocess.run(pip, check=True, capture_output=True, timeout=100)
    return folder
