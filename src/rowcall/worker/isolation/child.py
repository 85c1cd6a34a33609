"""A child process of a worker: `python -m rowcall.worker.isolation.child DESCRIPTOR PARENT`. Ends with its worker."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import functools
import importlib
import importlib.util
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FrameType, ModuleType
from typing import NoReturn

from rowcall.context import logger, running
from rowcall.declare.declaration import Declaration, declared_here
from rowcall.declare.failures import Failures
from rowcall.declare.isolation import SCRIPT_MODULE, Home
from rowcall.declare.options import Options
from rowcall.domain.errors import Control, InvalidArguments
from rowcall.domain.payload import MISMATCH_CODE, PayloadUnfit, result_to_json
from rowcall.operations.enqueue import Enqueueing
from rowcall.task import BaseTask
from rowcall.worker.attempt import BAD_RESULT_CODE
from rowcall.worker.isolation import bootstrap
from rowcall.worker.isolation.child_attempt import ChildAttempt
from rowcall.worker.isolation.child_log import forward_log
from rowcall.worker.isolation.exceptions import told
from rowcall.worker.isolation.messages import (
    AboutAttempt,
    Answered,
    Begun,
    Hello,
    Order,
    Prepared,
    Returned,
    ToWorker,
    Unfitting,
    line_of,
    to_child,
)

try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

TERMINATED = 128 + signal.SIGTERM
_PR_SET_PDEATHSIG = 1
_FIRST_VICTIM = "500"


class Child:
    """The main thread runs handlers, so that they may use signals; another listens to the worker."""

    def __init__(self, connection: socket.socket) -> None:
        self._pid = os.getpid()
        self._connection = connection
        self._sending = threading.Lock()
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._attempt: ChildAttempt | None = None
        self._terminating = False

    def send(self, word: ToWorker) -> None:
        try:
            with self._sending:
                self._connection.sendall(line_of(word))
        except (BrokenPipeError, ConnectionResetError):
            pass  # nobody listens any more, and the end is near
        except OSError:
            if os.getpid() == self._pid:
                os.killpg(0, signal.SIGKILL)  # the handler has closed the socket: an end is all that can still be told

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, self._terminate)
        lines = self._connection.makefile("rb")
        first = lines.readline()
        if not first:
            return  # the worker is gone already
        hello = to_child.decode(first)
        assert isinstance(hello, Hello)
        sys.path[:] = hello.path
        threading.Thread(target=self._listen, args=(lines,), name="rowcall-worker", daemon=True).start()
        forward_log(self.send)
        _prepare(hello)
        self.send(Prepared())
        while True:
            order = self._orders.get()
            contextvars.copy_context().run(self._run, order)
            if self._terminating:
                _leave()

    def _listen(self, lines: Iterable[bytes]) -> None:
        with contextlib.suppress(OSError):
            for line in lines:
                match to_child.decode(line):
                    case Order() as order:
                        self._orders.put(order)
                    case Answered() as answer if self._attempt is not None:
                        self._attempt.answers.put(answer)
        os.killpg(0, signal.SIGKILL)  # the worker is gone: so is what was started here

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._terminating = True
        if self._attempt is None:
            _leave()
        self._attempt.cancelled = self._attempt.saw_cancelled = True
        raise SystemExit(TERMINATED)  # the handler may clean up

    def _run(self, order: Order) -> None:
        def say(word: AboutAttempt) -> None:
            word.attempt = (order.ready.id, order.ready.lease)
            self.send(word)

        say(Begun())
        logger.setLevel(order.log_level)
        task: Declaration | None = None
        try:
            task = find(order.home, order.task)
            attempt = ChildAttempt(order, task.queue if isinstance(task.queue, Enqueueing) else None, say)
            try:
                self._attempt = attempt
                with memory_limited(order.memory_limit):
                    result = _called(task, attempt)
            finally:
                self._attempt = None
                attempt.is_over = True
                _flush()
                if os.getpid() != self._pid:
                    os._exit(0)  # a copy that the handler made: the original speaks for itself
        except PayloadUnfit as error:
            say(Unfitting(error.code, error.detail))
        except BaseException as error:  # a handler may raise anything
            if self._terminating and not isinstance(error, Control):
                return
            failures = task.failures if task is not None else Failures()
            say(told(error, failures, is_declared=task is not None and task.queue is not None))
        else:
            say(_returned(order.task, result, attempt))


def _called(task: Declaration, attempt: ChildAttempt) -> object:
    args, kwargs = task.arguments.from_json(attempt.ready.payload)
    if task.takes_context:
        args.insert(0, attempt.context)
    for name in task.preloads:
        getattr(attempt.context, name)
    running.set(attempt)
    result = task.function(*args, **kwargs)
    return asyncio.run(result) if task.is_async else result  # type: ignore[arg-type]


def _returned(task: str, result: object, attempt: ChildAttempt) -> AboutAttempt:
    try:
        return Returned(result_to_json(task, result), attempt.saw_cancelled)
    except InvalidArguments as error:
        return Unfitting(BAD_RESULT_CODE, f"the handler returned what JSON cannot hold: {error.problem}")


def find(home: Home, task: str) -> Declaration:
    """The task as its module declares it; a function that is declared elsewhere is called all the same."""
    module = _imported(home)
    declared = declared_here.get((module.__name__, home.name, task))
    if declared is not None:
        return declared
    function: object = module
    try:
        for part in home.name.split("."):
            function = getattr(function, part)
    except AttributeError as error:  # this process has imported a newer version of the code than its worker
        raise PayloadUnfit(MISMATCH_CODE, f"{home.module} has no function {home.name} any more") from error
    if isinstance(function, BaseTask):
        function = function.__wrapped__
    assert callable(function)
    return Declaration(task, function, Options(isolated=True))


def _imported(home: Home) -> ModuleType:
    with bootstrap.importing():
        found = importlib.import_module(home.module) if home.path is None else _script(home.path)
    if isinstance(found, BaseException):
        raise found
    return found


@functools.cache
def _script(path: str) -> ModuleType | BaseException:
    """Run once, even if in vain: it may do more than declare tasks."""
    spec = importlib.util.spec_from_file_location(SCRIPT_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[SCRIPT_MODULE] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        return error
    return module


def _prepare(hello: Hello) -> None:
    """Import ahead of need. What fails here will fail again where it is needed, and is told there."""
    homes = [*([Home(hello.app, "")] if hello.app is not None else []), *hello.homes]
    for home in homes:
        try:
            _imported(home)
        except BaseException as error:
            logger.debug("a child process could not import %s: %r", home.path or home.module, error)


@contextlib.contextmanager
def memory_limited(limit: int | None) -> Iterator[None]:
    """Within it, asking the system for more memory than that fails."""
    if limit is None or resource is None:
        yield
        return
    # data, where the kernel counts all that is written to; the address space is far larger than what is used
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    former = resource.getrlimit(kind)
    lowest = min([limit, *(bound for bound in former if bound != resource.RLIM_INFINITY)])
    resource.setrlimit(kind, (lowest, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, former)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        # beside the socket, which is not looked at while a library holds the interpreter
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(_FIRST_VICTIM)  # rather this process than the worker with all its jobs
    if os.getppid() != parent:
        os._exit(TERMINATED)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last where a signal came within a print
            stream.flush()


def _leave() -> NoReturn:
    _flush()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # so that it counts as what it was
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(TERMINATED)


def main() -> None:
    descriptor, parent = map(int, sys.argv[1:])
    _die_with(parent)
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Child(socket.socket(fileno=descriptor)).serve()


if __name__ == "__main__":
    main()
