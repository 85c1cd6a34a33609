"""The queues' environments below `.venv/field`, made when they are first asked for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.contestants.field import Peer
from benchmarks.workers import ROOT

FOLDER = ROOT / ".venv" / "field"
STAMP = ".installed"
LAST_OF_OUTPUT = 300


class NotInstalled(Exception):
    """A queue cannot be installed, or its service is not there."""


def installed(peer: Peer) -> Path:
    """Return the folder with the queue's programs. Install it first if that is not done, or raise `NotInstalled`."""
    if peer.programs is not None:
        return peer.programs
    if peer.service == "Redis" and shutil.which("redis-server") is None:
        raise NotInstalled("there is no redis-server here (Debian: apt install redis-server)")
    folder = FOLDER / ("rowcall" if peer.ours else peer.name)
    stamp = folder / STAMP
    packages = " ".join(peer.packages)
    if not stamp.exists() or stamp.read_text() != packages:
        shutil.rmtree(folder, ignore_errors=True)
        (_install_with_npm if peer.npm else _install_with_pip)(peer, folder)
        stamp.write_text(packages)
    return folder / "node_modules" / ".bin" if peer.npm else folder / "bin"


def _install_with_pip(peer: Peer, folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, *(("--editable", f"{ROOT}[postgres]") if peer.ours else peer.packages)])


def _install_with_npm(peer: Peer, folder: Path) -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NotInstalled("there is no Node here (Debian: apt install nodejs npm)")
    folder.mkdir(parents=True)
    _run(["npm", "install", "--silent", "--no-save", "--prefix", str(folder), *peer.packages])


def _run(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip()[-LAST_OF_OUTPUT:]
        raise NotInstalled(f"{Path(command[0]).name} cannot install it: {said}")
