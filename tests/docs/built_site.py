"""The site of the documentation, built once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT


def built_site(shared: Path) -> Path:
    """Build the site in a folder that all processes of the run share, unless another one has; return its path."""
    shared.mkdir(parents=True, exist_ok=True)
    site = shared / "site"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.exists():
            building = shared / "building"
            command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(building)]
            env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)
            assert (built.returncode, built.stdout + built.stderr) == (0, "")
            building.rename(site)
    return site
