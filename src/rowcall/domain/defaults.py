"""What applies to tasks that declare nothing else: for the whole app, and for single queues."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from rowcall.domain import checks
from rowcall.domain.backoff import Backoff, RetryPolicy
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.value import OptionsMeta, Value

SHORTEST_TIMEOUT_SECONDS = 0.001
_attempts = checks.whole(1, 1_000_000)


class TaskDefaults(Value, frozen=True, metaclass=OptionsMeta):
    """The options of tasks and jobs that do not give them: `Rowcall(defaults=TaskDefaults(max_attempts=3))`.

    >>> TaskDefaults(timeout=60, queues={"mail": TaskDefaults(max_attempts=10)}).of("mail").max_attempts
    10
    """

    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    timeout: float | timedelta | None = None
    on_failure: str | None = None
    """The name of a task that is enqueued when a job has failed, unless its task has a handler for that."""
    queues: Mapping[str, "TaskDefaults"] = {}
    """Other defaults for some queues. What they leave out is that of the whole app."""

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            _attempts("max_attempts", self.max_attempts)
        if self.retry is not None and not isinstance(self.retry, Backoff) and not callable(self.retry):
            raise InvalidOption("retry", f"must be a Backoff or a callable of (attempt, error), got {self.retry!r}")
        if self.timeout is not None:
            seconds = seconds_of("timeout", self.timeout, SHORTEST_TIMEOUT_SECONDS)
            msgspec.structs.force_setattr(self, "timeout", seconds)
        if self.on_failure is not None:
            checks.name("on_failure", self.on_failure)
        if not isinstance(self.queues, Mapping):
            raise InvalidOption("queues", f"must be a dict of queue names to TaskDefaults, got {self.queues!r}")
        for queue, defaults in self.queues.items():
            checks.queue("queues", queue)
            if not isinstance(defaults, TaskDefaults) or defaults.queues:
                raise InvalidOption(
                    "queues", f"must be a dict of names to TaskDefaults without queues, got {defaults!r} for {queue!r}"
                )
        merged = {
            queue: TaskDefaults(
                max_attempts=defaults.max_attempts or self.max_attempts,
                retry=defaults.retry or self.retry,
                timeout=defaults.timeout or self.timeout,
                on_failure=defaults.on_failure or self.on_failure,
            )
            for queue, defaults in self.queues.items()
        }
        msgspec.structs.force_setattr(self, "queues", merged)

    def of(self, queue: str) -> "TaskDefaults":
        """Return the defaults of a queue."""
        return self.queues.get(queue, self)

    def timeout_seconds(self, queue: str) -> float | None:
        timeout: float | None = self.of(queue).timeout  # type: ignore[assignment]
        return timeout
