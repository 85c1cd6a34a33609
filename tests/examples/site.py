"""An example of `examples/`, copied into an empty folder and started there by the commands in its README."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.docs.pages import ROOT, blocks
from tests.support import PythonProcess, eventually

EXAMPLES = ROOT / "examples"
PATIENCE_SECONDS = 60.0
_SERVING = re.compile(r"http://127\.0\.0\.1:([1-9]\d*)")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_PORT = re.compile(r"localhost:\d+")


class Ask(NamedTuple):
    """A request, as the README shows it with curl."""

    path: str
    json: str | None


class Example:
    """One that is being followed."""

    def __init__(self, name: str, folder: Path, database_url: str | None, installed: Path) -> None:
        """`installed` has the package as users install it; it is found before the sources."""
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__", "app.db*"))
        self._folder = folder
        self._lines = [
            line.partition(" # ")[0].partition("   #")[0].strip()
            for block in blocks(EXAMPLES / name / "README.md")
            for line in block.text.splitlines()
        ]
        outer = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "ROWCALL_URL")}
        given = {} if database_url is None else {"DATABASE_URL": database_url}
        self._environment = {**outer, **given, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "default"}
        self._environment["PYTHONPATH"] = str(installed)
        self.database_url = database_url or f"sqlite:///{folder / 'app.db'}"

    def asks(self) -> list[Ask]:
        """The requests of the README, in their order."""
        return [_ask(shlex.split(line)) for line in self._lines if line.startswith("curl ")]

    def run(self, begins: str) -> None:
        """Run a command of the README, to its end."""
        with self.start(begins) as process:
            assert process.wait(within=PATIENCE_SECONDS) == 0, process.output

    def run_with(self, command: str, **variables: str) -> None:
        """Run another Python program in the folder, to its end."""
        words = shlex.split(command)[1:]
        environment = {**self._environment, **variables}
        with PythonProcess(*words, env=environment, cwd=str(self._folder)) as process:
            assert process.wait(within=PATIENCE_SECONDS) == 0, process.output

    def start(self, begins: str, *more: str, **variables: str) -> PythonProcess:
        """Start a command of the README, with more arguments and environment variables."""
        (line,) = {line for line in self._lines if line.startswith(begins)}
        words = shlex.split(line)
        assignments = [word for word in words if _ASSIGNMENT.match(word)]
        program, *arguments = words[len(assignments) :]
        module = [] if program == "python" else ["-m", program]
        environment: Mapping[str, str] = {
            **self._environment,
            **variables,
            **dict(word.split("=", 1) for word in assignments),
        }
        return PythonProcess(*module, *arguments, *more, env=environment, cwd=str(self._folder))


class Site:
    """A web server that was started, at whatever port it chose."""

    def __init__(self, server: PythonProcess) -> None:
        eventually(
            lambda: _SERVING.search(server.output) or not server.alive, within=PATIENCE_SECONDS, message="the server"
        )
        found = _SERVING.search(server.output)
        assert found is not None, server.output
        self._server = server
        self._client = httpx.Client(base_url=found[0], timeout=PATIENCE_SECONDS)

    def ask(self, ask: Ask) -> httpx.Response:
        if ask.json is None:
            return self._client.get(ask.path)
        return self._client.post(ask.path, content=ask.json, headers={"content-type": "application/json"})

    @property
    def client(self) -> httpx.Client:
        return self._client

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


def _ask(words: list[str]) -> Ask:
    path = _PORT.sub("", words[-1])
    match words:
        case ["curl", "--json", json, _]:
            return Ask(path, json)
        case ["curl", _]:
            return Ask(path, None)
    raise AssertionError(f"a request that the tests cannot read: {words}")
