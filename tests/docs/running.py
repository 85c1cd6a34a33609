"""Runs a page in its order: its Python blocks in one namespace, its SQL on its database, its `rowcall` commands."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import re
import shlex
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from types import CodeType
from typing import cast

from click.testing import CliRunner

from rowcall import Rowcall
from rowcall.cli.main import main
from tests.docs.databases import PageDatabase
from tests.docs.pages import Block, Command
from tests.observe.scraping import free_ports
from tests.support import ForkedProcess, eventually

METRICS_PORT = "9464"
_PROCESSES = re.compile(r"--processes (\d+)")


class PageRun:
    """Runs one page in an empty current folder."""

    def __init__(self, folder: Path, database: PageDatabase) -> None:
        self._folder = folder
        self._database = database
        self._namespace: dict[str, object] = {"__name__": "__main__"}
        self._printed: object = None
        self._files: list[str] = []
        self._queues: set[Rowcall] = set()

    def follow(self, block: Block) -> None:
        if not self._database.is_for(block):
            return
        # the port first: the name of a database may have its digits
        block = block._replace(text=self._database.filled_in(self._with_free_port(block.text)))
        match block.language:
            case "python":
                self._run_python(block)
            case "sh":
                for command in block.commands:
                    self._run_command(command, block.location)
            case "sql":
                self._database.run_sql(block.text)
            case "json":
                assert self._printed is not None, f"{block.location}: no command before it printed JSON"
                assert_same_shape(json.loads(block.text), self._printed, block.location)

    def _with_free_port(self, text: str) -> str:
        """Replace the port of the pages, which another test may use at the same time."""
        return text.replace(METRICS_PORT, str(free_ports(2))) if METRICS_PORT in text else text

    def close(self) -> None:
        self._note_queues()
        for queue in self._queues:
            queue.close()
        self._namespace.clear()
        written = {name.removesuffix(".py").partition("/")[0] for name in self._files}
        for name in [name for name in sys.modules if name.partition(".")[0] in written]:
            del sys.modules[name]  # a command may have imported it

    def _note_queues(self) -> None:
        """Remember the queues before a block uses their names for others."""
        self._queues.update(value for value in self._namespace.values() if isinstance(value, Rowcall))

    def _run_python(self, block: Block) -> None:
        self._note_queues()
        if block.file_name is not None:
            path = self._folder / block.file_name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            self._files.append(block.file_name)
            if path.parent != self._folder:
                return  # a module of a package, which other blocks import
        if block.file_name == "tasks.py":  # a task of Django belongs to a module, which a worker imports
            self._namespace.update(vars(importlib.import_module("tasks")), __name__="__main__")
            return
        code = compiled(block)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(cast("Coroutine[object, object, object]", eval(code, self._namespace)))
        else:
            exec(code, self._namespace)

    def _run_command(self, command: Command, location: str) -> None:
        words = shlex.split(command.text)[1:]
        if words[0] == "work":
            work_for_a_moment(words, self._folder, self._database)
            return
        if words[0] == "dashboard":
            serve_for_a_moment(words, self._folder)
            return
        done = CliRunner().invoke(main, words)
        # what the doctor finds on the machine that runs the tests is not the page's fault
        allowed = {0, 1} if words[0] == "doctor" else {command.exit_code}
        assert done.exit_code in allowed, f"{location}: {command.text}\n{done.output}"
        self._printed = json.loads(done.stdout) if "--json" in words else None


def compiled(block: Block) -> CodeType:
    """Return the block's code, which may await, with the line numbers of its page."""
    source = "\n" * block.line + block.text
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(source, str(block.page), "exec", flags=flags, dont_inherit=True)
    return code


def serve_for_a_moment(words: list[str], folder: Path) -> None:
    """Start a dashboard on a free port, wait until it listens, and ask it to stop."""
    with ForkedProcess("-m", "rowcall", *words, "--port=0", cwd=str(folder)) as process:
        eventually(lambda: "dashboard of" in process.output or not process.alive, message=f"{words} does not listen")
        process.send(signal.SIGTERM)
        process.wait()
        assert "dashboard of" in process.output, process.output


def work_for_a_moment(words: list[str], folder: Path, database: PageDatabase) -> None:
    """Start a worker, wait until it is registered, and ask it to stop."""
    processes = int(found[1]) if (found := _PROCESSES.search(" ".join(words))) else 1
    with ForkedProcess("-m", "rowcall", *words, cwd=str(folder)) as process, database.open() as jobs:
        eventually(lambda: len(jobs.workers()) == processes or not process.alive, message=f"the workers of {words}")
        process.send(signal.SIGTERM)
        assert process.wait() == 0, process.output
        assert jobs.workers() == []


def assert_same_shape(shown: object, real: object, location: str) -> None:
    """Compare keys and types of values. Null matches any value; the first item of a list is compared with all."""
    if shown is None or real is None:
        return
    if isinstance(shown, dict):
        assert isinstance(real, dict), f"{location}: {real!r} is not an object"
        assert list(shown) == list(real), location
        for key, value in shown.items():
            assert_same_shape(value, real[key], f"{location}.{key}")
    elif isinstance(shown, list):
        assert isinstance(real, list), f"{location}: {real!r} is not a list"
        assert bool(shown) == bool(real), f"{location}: {real!r}"
        for part in real:
            assert_same_shape(shown[0], part, f"{location}[]")
    elif isinstance(shown, int | float) and not isinstance(shown, bool):
        assert isinstance(real, int | float), f"{location}: {real!r} is not a number"
    else:
        assert type(shown) is type(real), f"{location}: {real!r}"
