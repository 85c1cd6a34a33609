"""A child process of a worker: `python -m rowcall.worker.isolation.child DESCRIPTOR PARENT`. Ends with its worker."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import importlib
import importlib.util
import logging
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from itertools import dropwhile
from types import CoroutineType, FrameType, ModuleType
from typing import NoReturn

from rowcall.base.django_setup import set_up_django
from rowcall.context import logger, running
from rowcall.declare.declaration import Declaration, declared_here
from rowcall.declare.dependencies import NO_OVERRIDES, Graph, graph_of, held_by_worker
from rowcall.declare.failures import Failures
from rowcall.declare.isolation import SCRIPT_MODULE, Home
from rowcall.declare.lifespan import failed
from rowcall.declare.option_table import Options
from rowcall.domain.errors import Control, InvalidArguments, JobCancelled, JobFailed, StepError, Suspend, child_code
from rowcall.domain.job import StackFrame
from rowcall.domain.payload import BAD_RESULT_CODE, HANDLER_RETURNED, MISMATCH_CODE, PayloadUnfit, result_to_json
from rowcall.observe.frames import awaiting, executing, frame_values
from rowcall.observe.shown_exceptions import is_of_caller
from rowcall.task import BaseTask
from rowcall.worker.isolation import import_guard
from rowcall.worker.isolation.child_attempt import ChildAttempt
from rowcall.worker.isolation.child_exceptions import described
from rowcall.worker.isolation.child_lifespan import ChildLifespan, Run, entered
from rowcall.worker.isolation.messages import (
    Answered,
    AttemptMessage,
    Begun,
    End,
    Hello,
    Logged,
    NotEntered,
    Prepared,
    ReadStack,
    Returned,
    RunAttempt,
    StackRead,
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
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime"}


class Child:
    """The main thread runs handlers, so that they can use signals; another thread reads from the worker."""

    def __init__(self, connection: socket.socket) -> None:
        self._pid = os.getpid()
        self._connection = connection
        self._sending = threading.Lock()
        self._calls: queue.SimpleQueue[RunAttempt | None] = queue.SimpleQueue()
        self._lifespan = ChildLifespan()
        self._attempt: ChildAttempt | None = None
        self._terminating = False

    def send(self, message: ToWorker) -> None:
        try:
            with self._sending:
                self._connection.sendall(line_of(message))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the worker is gone, and this process will end soon
        except OSError:
            if os.getpid() == self._pid:
                os.killpg(0, signal.SIGKILL)  # the handler has closed the socket: only our end can be noticed

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, self._terminate)
        lines = self._connection.makefile("rb")
        first = lines.readline()
        if not first:
            return  # the worker is already gone
        hello = to_child.decode(first)
        assert isinstance(hello, Hello)
        sys.path[:] = hello.path
        threading.Thread(target=self._listen, args=(lines,), name="rowcall-worker", daemon=True).start()
        forward_log(self.send)
        _prepare(hello)
        if hello.has_lifespan and self._calls.empty():  # otherwise it should end already
            self._serve_within(hello)
        else:
            self._serve_calls()
        if self._terminating:
            _leave()

    def _serve_within(self, hello: Hello) -> None:
        """Enter the lifespan and what handlers depend on, serve calls, and leave it."""
        home = hello.lifespan
        try:
            lifespan = None if home is None else _function_at(home)
            held = held_by_worker(filter(None, map(_dependencies_at, hello.homes)))
            with entered(lifespan, held) as self._lifespan:  # type: ignore[arg-type]
                self._serve_calls()
        except BaseException as error:
            if self._terminating and isinstance(error, SystemExit):
                return
            if self._lifespan.is_entered:
                traceback.print_exc()  # the worker does not listen any more
                return
            failure = failed("of the worker" if home is None else f"{home.module}.{home.name}", error)
            logger.error("lifespan %s failed in a child process", failure.lifespan, exc_info=True)
            self.send(NotEntered(failure.lifespan, failure.problem))

    def _serve_calls(self) -> None:
        self.send(Prepared())
        while not self._terminating and (call := self._calls.get()) is not None:
            contextvars.copy_context().run(self._run, call)

    def _listen(self, lines: Iterable[bytes]) -> None:
        with contextlib.suppress(OSError):
            for line in lines:
                match to_child.decode(line):
                    case RunAttempt() as call:
                        self._calls.put(call)
                    case End():
                        self._calls.put(None)
                    case Answered() as answer if self._attempt is not None:
                        self._attempt.answers.put(answer)
                    case ReadStack():
                        self.send(StackRead(_stack()))
        os.killpg(0, signal.SIGKILL)  # the worker is gone: also end what handlers have started here

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._terminating = True
        if self._attempt is None and not self._lifespan.is_entered:
            _leave()
        if self._attempt is not None:
            self._attempt.cancelled = self._attempt.saw_cancelled = True
        raise SystemExit(TERMINATED)  # the handler may clean up

    def _run(self, call: RunAttempt) -> None:
        def report(message: AttemptMessage) -> None:
            message.attempt = (call.ready.id, call.ready.lease)
            self.send(message)

        report(Begun())
        logger.setLevel(call.log_level)
        task: Declaration | None = None
        try:
            task = find_task(call.home, call.task)
            if call.has_middleware and task.queue is None:
                raise _without_middleware(call.home)
            attempt = ChildAttempt(call, task, report, self._lifespan)
            try:
                self._attempt = attempt
                with memory_limited(call.memory_limit), attempt.ending():
                    result = _result_of(task, attempt, self._lifespan.run)
            finally:
                self._attempt = None
                attempt.is_over = True
                _flush()
                if os.getpid() != self._pid:
                    os._exit(0)  # a fork that the handler made: the original reports the outcome
                attempt.confirm_report()
        except PayloadUnfit as error:
            report(Unfitting(error.code, error.detail))
        except BaseException as error:  # a handler may raise anything
            if self._terminating and not isinstance(error, Control | Suspend):
                return
            if isinstance(error, InvalidArguments | StepError) and error.error_code is not None:
                report(Unfitting(error.error_code, str(error)))
                return
            if isinstance(error, JobFailed | JobCancelled) and error.parent_id == call.ready.id:
                report(Unfitting(child_code(error), str(error)))
                return
            failures = task.failures if task is not None else Failures()
            report(described(error, failures, is_declared=task is not None and task.queue is not None))
        else:
            report(_returned(call.task, result, attempt))


def _result_of(task: Declaration, attempt: ChildAttempt, run: Run) -> object:
    args, kwargs = task.arguments.from_json(attempt.ready.payload)
    if task.takes_context:
        args.insert(0, attempt.context)
    attempt.context._preload(task.preloads, steps=task.preloads_steps)
    running.set(attempt)
    result = task.call(*args, **kwargs)
    return run(result) if task.is_async else result  # type: ignore[arg-type]


def _stack() -> list[StackFrame]:
    """Return the frames of the handler; none if none runs."""
    for caller, frames in executing((_result_of.__code__,)):
        result = caller.f_locals.get("result")
        if isinstance(result, CoroutineType) and not result.cr_running:
            frames = awaiting(result)
        return frame_values(dropwhile(is_of_caller, frames))
    return []


def _returned(task: str, result: object, attempt: ChildAttempt) -> AttemptMessage:
    try:
        return Returned(result_to_json(task, result, HANDLER_RETURNED), attempt.saw_cancelled)
    except InvalidArguments as error:
        return Unfitting(BAD_RESULT_CODE, error.problem)


def find_task(home: Home, task: str) -> Declaration:
    """Return the task as its module declares it, or a declaration of the function if the module does not."""
    module = _imported(home)
    declared = declared_here.get((module.__name__, home.name, task))
    if declared is not None:
        return declared
    try:
        function = _handler_at(home)
    except AttributeError as error:  # this process has imported a newer version of the code than its worker
        raise PayloadUnfit(MISMATCH_CODE, f"{home.module} has no function {home.name} any more") from error
    return Declaration(task, function, Options(isolated=True))


def _handler_at(home: Home) -> Callable[..., object]:
    function = _function_at(home)
    if isinstance(function, BaseTask):
        function = function.__wrapped__
    assert callable(function)
    return function


def _dependencies_at(home: Home) -> Graph | None:
    """Return the dependencies of a handler; None if it cannot be imported, which is reported when it is called."""
    try:
        return graph_of(home.name, _handler_at(home), NO_OVERRIDES, for_async=True)
    except Exception:
        return None


def _without_middleware(home: Home) -> RuntimeError:
    return RuntimeError(
        f"middleware in a child process works only if the module {home.module} declares the task of {home.name}:"
        " the child learns from it which middleware there is"
    )


def _function_at(home: Home) -> object:
    function: object = _imported(home)
    for part in home.name.split("."):
        function = getattr(function, part)
    return function


def _imported(home: Home) -> ModuleType:
    with import_guard.importing():
        module = importlib.import_module(home.module) if home.path is None else _script(home.path)
    if isinstance(module, BaseException):
        raise module
    return module


@functools.cache
def _script(path: str) -> ModuleType | BaseException:
    """Run the script once, even if it fails: it may do more than declare tasks."""
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
    """Import ahead of need. An import that fails here fails again when it is needed, and is reported then."""
    try:
        set_up_django()
    except BaseException as error:
        logger.debug("child process could not set Django up: %r", error)
    homes = [*([Home(hello.app, "")] if hello.app is not None else []), *hello.homes]
    for home in homes:
        try:
            _imported(home)
        except BaseException as error:
            logger.debug("child process could not import %s: %r", home.path or home.module, error)


@contextlib.contextmanager
def memory_limited(limit: int | None) -> Iterator[None]:
    """Let every request for more memory than `limit` bytes fail."""
    if limit is None or resource is None:
        yield
        return
    # RLIMIT_DATA counts written memory; the address space is far larger than what is used
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
        # in addition to the socket, which is not read while a library holds the interpreter
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(_FIRST_VICTIM)  # the kernel should kill this process, not the worker with all its jobs
    if os.getppid() != parent:
        os._exit(TERMINATED)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # RuntimeError if a signal interrupted a print
            stream.flush()


def _leave() -> NoReturn:
    _flush()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # so that the exit status names the signal
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(TERMINATED)


def forward_log(send: Callable[[Logged], None]) -> None:
    logger.addHandler(_Forward(send))
    logger.propagate = False


class _Forward(logging.Handler):
    def __init__(self, send: Callable[[Logged], None]) -> None:
        super().__init__()
        self._forward = send
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields: dict[str, object] = {
                name: value
                for name, value in vars(record).items()
                if name not in _USUAL and isinstance(value, str | int | float | None)
            }
            text = self._formatter.format(record).encode("utf-8", "replace").decode()  # with the traceback, if any
            self._forward(Logged(record.levelno, text, fields))
        except Exception:
            self.handleError(record)


def main() -> None:
    descriptor, parent = map(int, sys.argv[1:])
    _die_with(parent)
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Child(socket.socket(fileno=descriptor)).serve()


if __name__ == "__main__":
    main()
