"""Real processes for tests: started as Python programs, ended by their id, never left behind."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import functools
import gc
import importlib.abc
import importlib.util
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType, TracebackType
from typing import Literal, Protocol, cast

from rowcall.testing.deadline import eventually

PATIENCE_SECONDS = 30.0
MOST_OUTPUT_BYTES = 16 * 1024 * 1024

STOPPING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

# imported once, for all programs that a fork server starts
PRELOADED = (
    *("rowcall", "rowcall.cli.main", "rowcall.cli.commands.work", "rowcall.testing", "psycopg_pool"),
    *("rowcall.store.postgres.dialect", "rowcall.drivers.postgres.database", "rowcall.wake.postgres_listener"),
)
REQUEST_BYTES = 64 * 1024


def default_signals() -> Callable[[], None] | None:
    """Return a `preexec_fn` for children that signals must end, or None if this process ignores none of them.

    A process that a shell starts in the background, or some CI runners, ignores SIGINT, and so do its children.
    """
    ignored = [number for number in STOPPING if signal.getsignal(number) is signal.SIG_IGN]

    def restore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)

    return restore if ignored else None


def process_state(pid: int) -> str:
    """Return the kernel's letter: R runs, S sleeps, T is stopped."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


class Started(Protocol):
    """What is used of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...


class PythonProcess:
    """A Python program in a separate process; its output is kept in a file, so that it never blocks on a pipe.

    with PythonProcess("-m", "some.program", "argument") as process:
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    """

    def __init__(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = self._start(arguments, None if env is None else dict(env), cwd)

    def _start(self, arguments: tuple[str, ...], env: dict[str, str] | None, cwd: str | None) -> Started:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            preexec_fn=default_signals(),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def output(self) -> str:
        """What it has printed so far."""
        # the child writes through the same file position: read without moving it
        data = os.pread(self._output.fileno(), MOST_OUTPUT_BYTES, 0)
        return data.decode(errors="replace")

    def wait_for(self, text: str, *, within: float = PATIENCE_SECONDS) -> None:
        """Wait until it has printed a text."""
        eventually(lambda: text in self.output or not self.alive, within=within, message=f"{text!r} in the output")
        assert text in self.output, f"it ended with {self.returncode} before it printed {text!r}:\n{self.output}"

    @property
    def is_stopped(self) -> bool:
        """Whether SIGSTOP has taken effect."""
        return process_state(self.pid) == "T"

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has cleared it away."""
        self.send(signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)

    def wait(self, *, within: float = PATIENCE_SECONDS) -> int:
        """Wait for its end. Return its exit code."""
        return self._process.wait(within)

    def close(self) -> None:
        self.send(signal.SIGCONT)
        self.kill()
        self._output.close()

    def __enter__(self) -> PythonProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ForkedProcess(PythonProcess):
    """A `PythonProcess` that starts quickly: a fork of a process which has imported Rowcall already.

    Takes `-m module` or `-c code`; of the interpreter's options, `-W action` and `-W action::category`. Use it for
    programs that import Rowcall and do not depend on what else is imported.
    """

    def _start(self, arguments: tuple[str, ...], env: dict[str, str] | None, cwd: str | None) -> Started:
        with open(os.devnull) as nothing:
            return fork_program(arguments, (nothing.fileno(), self._output.fileno(), self._output.fileno()), env, cwd)


def fork_program(
    arguments: tuple[str, ...],
    files: tuple[int, int, int],
    env: dict[str, str] | None = None,
    cwd: str | None = None,
    *,
    new_session: bool = False,
) -> Started:
    """Fork a program, as `ForkedProcess` does, with these files as standard input, output and error."""
    request = {
        "arguments": arguments,
        "env": dict(os.environ) if env is None else env,
        "cwd": cwd or os.getcwd(),
        "new_session": new_session,
    }
    return _fork_server(os.getpid()).start(json.dumps(request).encode(), files)


class _ForkServer:
    """Forks processes, one per request, and reports how each ended. It ends with this process, and they with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rowcall.testing.process"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                preexec_fn=default_signals(),
            )
        atexit.register(self._close)

    def start(self, request: bytes, files: tuple[int, int, int]) -> _Forked:
        reports, theirs = socket.socketpair()
        request += b"\n"
        with reports, self._lock:
            with theirs:
                sent = socket.send_fds(self._requests, [request], [theirs.fileno(), *files])
            self._requests.sendall(request[sent:])
            return _Forked(reports)  # returns when the server has read the request

    def _close(self) -> None:
        self._requests.close()
        self._process.wait()


@functools.cache
def _fork_server(owner_pid: int) -> _ForkServer:
    return _ForkServer()


class _Forked:
    """A forked process, as `subprocess.Popen` would show it. The server reports its id, then its exit code."""

    def __init__(self, reports: socket.socket) -> None:
        self._reports = reports.makefile("r")
        self._returncode: int | None = None
        self.pid = int(self._reports.readline())

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        if self._returncode is None:
            if not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            with self._reports:
                self._returncode = int(self._reports.readline())
        return self._returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _serve() -> list[str]:
    """Fork until the owner is gone. Return in each forked process, with the arguments it has to run."""
    for module in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()
    requests = socket.socket(fileno=os.dup(0))
    wake_up, woken = socket.socketpair()
    woken.setblocking(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    children: dict[int, socket.socket] = {}
    while True:
        ready = select.select([requests, wake_up], [], [])[0]
        if wake_up in ready:
            wake_up.recv(4096)
            for pid in list(children):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    _report(children.pop(pid), os.waitstatus_to_exitcode(status))
        if requests not in ready:
            continue
        request, handed, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 4)
        while request and not request.endswith(b"\n"):
            request += requests.recv(REQUEST_BYTES)
        if not request:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            sys.exit()
        reports, files = socket.socket(fileno=handed[0]), handed[1:]
        pid = os.fork()
        if pid:
            for file in files:
                os.close(file)
            children[pid] = reports
            with contextlib.suppress(OSError):
                reports.sendall(f"{pid}\n".encode())
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for descriptor in (requests, wake_up, woken, reports, *children.values()):
            descriptor.close()
        return _become(files, **json.loads(request))


def _report(reports: socket.socket, exit_code: int) -> None:
    with reports, contextlib.suppress(OSError):
        reports.sendall(f"{exit_code}\n".encode())


def _become(files: list[int], *, arguments: list[str], env: dict[str, str], cwd: str, new_session: bool) -> list[str]:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if new_session:
        os.setsid()
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None  # it may have another TMPDIR
    sys.path[1:1] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
    os.chdir(cwd)
    encoding, _, errors = env.get("PYTHONIOENCODING", "").partition(":")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        if encoding:
            stream.reconfigure(
                encoding=encoding, errors="backslashreplace" if stream is sys.stderr else errors or "strict"
            )
    cast(io.TextIOWrapper, sys.stdout).reconfigure(line_buffering=os.isatty(1))
    return arguments


def _run(arguments: list[str]) -> None:
    """Run as the interpreter would with these arguments."""
    sys.orig_argv = [sys.executable, *arguments]
    while arguments[0] == "-W":
        action, _, category = arguments[1].partition("::")
        warnings.simplefilter(cast(Literal["error", "ignore"], action), getattr(builtins, category or "Warning"))
        arguments = arguments[2:]
    option, program, *program_arguments = arguments
    main = sys.modules["__main__"] = ModuleType("__main__")
    if option == "-c":
        sys.argv, sys.path[0] = ["-c", *program_arguments], ""
        exec(compile(program, "<string>", "exec"), main.__dict__)
        return
    assert option == "-m", f"a forked process takes -m or -c first, got {option}"
    sys.path[0] = os.getcwd()
    importlib.invalidate_caches()
    spec = importlib.util.find_spec(program)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{program}.__main__")
    assert spec is not None, f"no module named {program}"
    assert spec.origin is not None
    assert isinstance(spec.loader, importlib.abc.InspectLoader)
    code = spec.loader.get_code(spec.name)
    assert code is not None
    sys.argv = [spec.origin, *program_arguments]
    main.__dict__.update(__file__=spec.origin, __spec__=spec, __package__=spec.parent, __loader__=spec.loader)
    exec(code, main.__dict__)


def _end(code: int) -> None:
    """End as the interpreter would, but leave the memory to the kernel: to free all modules takes longer than the fork.

    Return if the output cannot be written: the interpreter says so.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    try:
        _run(_serve())
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        _end((end.code or 0) & 0xFF)
        raise
    _end(0)
