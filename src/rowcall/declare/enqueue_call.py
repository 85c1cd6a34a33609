"""What an enqueue middleware sees of a job before it is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import msgspec

from rowcall.declare.lifespan import name_of
from rowcall.declare.middleware import is_async
from rowcall.declare.option_table import ENQUEUE_OPTIONS, EnqueueOptions, Options, as_given, checked
from rowcall.domain.errors import InvalidOption


class EnqueueCall:
    """A job that is about to be written: what an enqueue middleware reads and changes.

    @jobs.enqueue_middleware
    def tagged(call: EnqueueCall) -> None:
        call.options["tags"] = [*call.options.get("tags", ()), f"tenant:{tenant.get()}"]
    """

    def __init__(self, task: str, arguments: dict[str, object], options: EnqueueOptions) -> None:
        self.task = task
        """The name of the task."""
        self.arguments = arguments
        """The payload, as JSON values."""
        self.options = options
        """The options that were given with this job, without `after` and `connection`."""

    def __repr__(self) -> str:
        return f"<enqueue of {self.task!r} with {', '.join(self.options) or 'no options'}>"


EnqueueMiddleware = Callable[[EnqueueCall], object]


def checked_enqueue_middleware(function: EnqueueMiddleware) -> EnqueueMiddleware:
    """Return the function, or raise `InvalidOption`."""
    if not callable(function):
        raise InvalidOption("enqueue_middleware", f"must be a function such as `def tagged(call)`, got {function!r}")
    if is_async(function) or inspect.isgeneratorfunction(function):
        raise InvalidOption(
            "enqueue_middleware",
            f"must be a plain function that does not wait: enqueue and aenqueue call {name_of(function)}",
        )
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise InvalidOption("enqueue_middleware", f"must take one EnqueueCall: {name_of(function)}: {error}") from None
    return function


def changed(
    task: str, arguments: dict[str, object], original: Options, middleware: Sequence[EnqueueMiddleware]
) -> tuple[object, Options]:
    """Return the arguments and options after all of them, or raise `InvalidOption`."""
    call = EnqueueCall(task, arguments, as_given(original))
    for function in middleware:
        function(call)
    for name in ("after", "connection"):
        if name in call.options:
            raise InvalidOption(name, "cannot be set by an enqueue middleware")
    options = checked(call.options, ENQUEUE_OPTIONS)
    return call.arguments, msgspec.structs.replace(options, after=original.after, connection=original.connection)
