"""What follows the end of jobs, as this process declares it: follow-ups, which are jobs, and observers in workers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from rowcall.base.text import did_you_mean
from rowcall.context import logger
from rowcall.declare.declaration import Declaration
from rowcall.declare.option_table import Options, new_job
from rowcall.domain.config import Config
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import JobOutcome, Status
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import Transition
from rowcall.domain.payload import hints_of, value_from_row
from rowcall.store.new_job import NewJob
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.workers import Owned

ARGUMENT = "job"
Observer = Callable[[JobOutcome], object]
ObservedEvent = Literal["succeeded", "failed", "retried", "recovered", "released", "snoozed", "cancelled"]

EVENTS: dict[Move, ObservedEvent] = {
    Move.SUCCEED: "succeeded",
    Move.FAIL: "failed",
    Move.LOSE: "failed",
    Move.RETRY: "retried",
    Move.RECOVER: "recovered",
    Move.RELEASE: "released",
    Move.SNOOZE: "snoozed",
    Move.CANCEL: "cancelled",
}

MOST_KEPT = 10_000
# what the statement that enqueues follow-ups does not know, by its field of `Options`
_NOT_OF_FOLLOW_UPS = {"delay": "delay_ms", "expires_in": "expires_in_ms", "deadline": "deadline_ms"}
_NOT_OF_FOLLOW_UPS |= {name: name for name in ("tags", "key", "fair_by", "ordered_by")}
_NOTHING_GIVEN = Options()


class FollowUps:
    """The follow-ups of this process, by task and by the status in which jobs end."""

    def __init__(self, tasks: Mapping[str, Declaration]) -> None:
        self._tasks = tasks
        self._config = Config()
        self._declared: dict[str, dict[str, str]] = {}
        self._texts: dict[tuple[str, str], str | None] = {}
        self.any = False
        """Whether there are any, for a quick check."""
        self.observers: dict[str, list[Observer]] = {}

    def configure(self, config: Config) -> None:
        self._config = config
        self._changed()

    def check(self, task: Declaration, follow_up: Declaration, statuses: tuple[Status, ...]) -> None:
        _check_argument(follow_up)
        if self._leads_to(follow_up.name, task.name):
            raise InvalidOption("follow-up", f"{follow_up.name!r} would follow its own end; declare another function")
        declared = self._declared.get(task.name, {})
        for status in statuses:
            if status in declared:
                problem = f"of {status} jobs of {task.name!r} is already declared: {declared[status]!r}"
                raise InvalidOption("follow-up", problem)

    def declare(self, task: Declaration, follow_up: Declaration, statuses: tuple[Status, ...]) -> None:
        """Let a task follow each end of another one with one of these statuses, after `check`."""
        self._declared.setdefault(task.name, {}).update(dict.fromkeys(statuses, follow_up.name))
        task.follows_success = task.follows_success or Status.SUCCEEDED in statuses
        self._changed()

    def declaring(self, task: Declaration) -> None:
        """Call before a task is declared: one that the defaults name must take an outcome."""
        if task.name in self._default_follow_ups():
            _check_argument(task)
        self._texts = {}

    def on_end_of(self, task: str, queue: str) -> str | None:
        """Return what follows the end of a job of that task in that queue: see `NewJob.on_end`."""
        if not self.any:
            return None
        if (task, queue) not in self._texts:
            if len(self._texts) >= MOST_KEPT:  # names are generated, perhaps one per job
                self._texts = {}
            self._texts[task, queue] = self._text(task, queue)
        return self._texts[task, queue]

    def applied(self, job: NewJob) -> NewJob:
        """Return a new job with what follows its end."""
        on_end = self.on_end_of(job.type, job.queue)
        return job if on_end is None else msgspec.structs.replace(job, on_end=on_end)

    def followed(self, transition: Transition, task: str, queue: str) -> Transition:
        """Return the transition of a job with what follows, in case its row does not say."""
        on_end = self.on_end_of(task, queue)
        return transition if on_end is None else msgspec.structs.replace(transition, on_end=on_end)

    def _changed(self) -> None:
        self._texts = {}
        self.any = bool(self._declared) or bool(self._default_follow_ups())

    def _default_follow_ups(self) -> set[str]:
        defaults = self._config.defaults
        names = () if defaults is None else (defaults.on_failure, *(one.on_failure for one in defaults.queues.values()))
        return {name for name in names if name is not None}

    def _text(self, task: str, queue: str) -> str | None:
        known = self._tasks.get(task)
        name = task if known is None else known.name
        followed = dict(self._declared.get(name, {}))
        defaults = self._config.defaults
        follow_ups = {name for declared in self._declared.values() for name in declared.values()}
        default = None if defaults is None else defaults.of(queue).on_failure
        if default is not None and name not in follow_ups | self._default_follow_ups():
            followed.setdefault(Status.FAILED, default)
        if not followed:
            return None
        return msgspec.json.encode({status: self._next(name) for status, name in followed.items()}).decode()

    def _next(self, follow_up: str) -> dict[str, object]:
        known = self._tasks.get(follow_up)
        job = new_job(follow_up, _NOTHING_GIVEN if known is None else known.options, _NOTHING_GIVEN, self._config)
        return {"type": job.type, "queue": job.queue, "priority": job.priority, "max_attempts": job.max_attempts}

    def _leads_to(self, follow_up: str, task: str) -> bool:
        later = self._declared.get(follow_up, {}).values()
        return follow_up == task or any(self._leads_to(name, task) for name in later)

    # observers

    def observe(self, event: str, observer: Observer) -> Observer:
        """Have the workers of this process call a function after each event of that name, and return it."""
        names = list(dict.fromkeys(EVENTS.values()))
        if event not in names:
            advice = did_you_mean(event, names) if isinstance(event, str) else ""
            raise InvalidOption("event", f"must be one of {', '.join(names)}, got {event!r}{advice}")
        if not callable(observer) or inspect.iscoroutinefunction(observer):
            raise InvalidOption("function", f"must be a function that is not async, got {observer!r}")
        self.observers.setdefault(event, []).append(observer)
        return observer

    def call_observers(self, outcome: JobOutcome) -> None:
        """Call the observers of an event. What one raises is logged."""
        for observer in self.observers.get(outcome.event, ()):
            try:
                observer(outcome)
            except BaseException:  # not even sys.exit() in an observer may end a worker
                name = getattr(observer, "__qualname__", repr(observer))
                logger.exception("job %d (%s): the observer %s failed", outcome.id, outcome.type, name)


def _check_argument(follow_up: Declaration) -> None:
    names = follow_up.arguments.names
    if names != [ARGUMENT] or hints_of(follow_up.function).get(ARGUMENT) is not JobOutcome or follow_up.options.batch:
        takes = f"it takes {', '.join(names) or 'none'}"
        problem = f"must take one argument, {ARGUMENT}: JobOutcome, and no batch; {takes}"
        raise InvalidOption("follow-up", f"{follow_up.name!r} {problem}")
    for option, field in _NOT_OF_FOLLOW_UPS.items():
        if getattr(follow_up.options, field) is not None:
            problem = "cannot be an option of a follow-up, because the database enqueues its jobs"
            raise InvalidOption(option, f"{problem}; remove it from {follow_up.name!r}")


def outcome_of(job: Ready | Owned, transition: Transition, arguments: dict[str, object] | None = None) -> JobOutcome:
    """Return what observers get about the end of an attempt."""
    return JobOutcome(
        id=job.id,
        type=job.type,
        queue=job.queue,
        event=EVENTS[transition.move],
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        arguments=arguments or {},
        result=value_from_row(transition.result),
        error_code=transition.error_code,
        error_detail=transition.error_detail,
    )
