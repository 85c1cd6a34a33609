"""The tools that change something: each shows its change, and `confirm` makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rowcall.actions import CANCEL, DELETE, RESCHEDULE, RETRY, SET_PRIORITY, Action
from rowcall.cli.commands.jobs import job_as_json
from rowcall.cli.mcp.confirmed_changes import ConfirmedChanges, JsonObject, ShownChange
from rowcall.cli.target import Target
from rowcall.domain.errors import InvalidOption, RowcallError
from rowcall.domain.job import WAITING, Job, what_is_paused
from rowcall.operations.arguments import checked_actor
from rowcall.operations.inspect import get_row
from rowcall.overview.formats import counted
from rowcall.overview.scrub import scrubbed

Tool = Callable[..., JsonObject]
MOST_JOBS = 1000
SHOWN_JOBS = 10
_SHOWN_FIELDS = ("id", "type", "queue", "status", "attempt", "run_at", "error_code")


class ChangeTools:
    """Each public method is a tool. All but `confirm` change nothing."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._changes = ConfirmedChanges(target.queue.clock)
        self._actor = f"mcp for {checked_actor(None)}"

    @property
    def all(self) -> list[Tool]:
        shows: list[Tool] = [
            self.retry,
            self.cancel,
            self.delete,
            self.reschedule,
            self.set_priority,
            self.pause,
            self.resume,
        ]
        return [*shows, self.set_limit, self.reset_limit, self.change_schedule, self.confirm]

    def retry(
        self,
        ids: list[int] | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        error_code: str | None = None,
    ) -> JsonObject:
        """Show which finished jobs would run again: those with these ids, or the failed ones that match.

        Returns a token for `confirm`. Changes nothing.
        """
        return self._jobs(RETRY, ids, {"queue": queue, "type": type, "tag": tag, "error_code": error_code}, {})

    def cancel(
        self,
        ids: list[int] | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        reason: str | None = None,
    ) -> JsonObject:
        """Show which waiting and running jobs would be cancelled. Returns a token for `confirm`. Changes nothing."""
        return self._jobs(CANCEL, ids, {"queue": queue, "type": type, "tag": tag}, {"reason": reason})

    def delete(
        self,
        ids: list[int] | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        status: str | None = None,
    ) -> JsonObject:
        """Show which jobs would be deleted with their history. Returns a token for `confirm`. Changes nothing."""
        return self._jobs(DELETE, ids, {"queue": queue, "type": type, "tag": tag, "status": status}, {})

    def reschedule(
        self,
        delay_seconds: float,
        ids: list[int] | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
    ) -> JsonObject:
        """Show which waiting jobs would be due after this delay; 0 is at once. Returns a token for `confirm`."""
        return self._jobs(RESCHEDULE, ids, {"queue": queue, "type": type, "tag": tag}, {"delay": delay_seconds})

    def set_priority(
        self,
        priority: int,
        ids: list[int] | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
    ) -> JsonObject:
        """Show which jobs would get this priority; higher runs first. Returns a token for `confirm`."""
        return self._jobs(SET_PRIORITY, ids, {"queue": queue, "type": type, "tag": tag}, {"priority": priority})

    def pause(self, queue: str | None = None, task: str | None = None) -> JsonObject:
        """Show what pausing a queue or a task would hold up; the queue `*` is every queue. Returns a token for
        `confirm`.
        """
        return self._pause("pause", queue, task)

    def resume(self, queue: str | None = None, task: str | None = None) -> JsonObject:
        """Show what resuming a paused queue or task would let run. Returns a token for `confirm`."""
        return self._pause("resume", queue, task)

    def set_limit(
        self,
        name: str,
        concurrency: int | None = None,
        rate: int | None = None,
        per_seconds: float | None = None,
    ) -> JsonObject:
        """Show the numbers of a limit now, and what they would be for all workers. Returns a token for `confirm`."""
        numbers = {"concurrency": concurrency, "rate": rate, "per": per_seconds}
        chosen = {option: value for option, value in numbers.items() if value is not None}
        if not chosen:
            raise InvalidOption("concurrency", "is missing: give concurrency, or rate and per_seconds")
        make = partial(self._target.jobs.set_limit, name, **chosen)  # type: ignore[arg-type]
        return self._limit(f"set limit {name} to {chosen}", name, lambda: {"limit": make(actor=self._actor).to_dict()})

    def reset_limit(self, name: str) -> JsonObject:
        """Show a limit that would get its declared numbers again. Returns a token for `confirm`."""
        reset = self._target.jobs.reset_limit
        would = f"reset limit {name} to its declared numbers"
        return self._limit(would, name, lambda: {"was_set": reset(name, actor=self._actor)})

    def change_schedule(self, name: str, action: str) -> JsonObject:
        """Show a schedule that would be changed: `action` is pause, resume or run_now. Returns a token for
        `confirm`.
        """
        jobs = self._target.jobs
        makes: dict[str, Callable[..., Any]] = {
            "pause": jobs.pause_schedule,
            "resume": jobs.resume_schedule,
            "run_now": jobs.run_schedule_now,
        }
        if action not in makes:
            raise InvalidOption("action", f"must be one of {', '.join(makes)}, got {action!r}")

        def state() -> JsonObject:
            for one in jobs.schedules():
                if one.name == name:
                    return {"schedule": self._scrubbed(one).to_dict()}
            raise InvalidOption("name", f"is not the name of a schedule: {name!r}")

        def make() -> JsonObject:
            return {"done": self._scrubbed(makes[action](name, actor=self._actor)).to_dict()}

        return self._changes.show(
            ShownChange(f"{action.replace('_', ' ')}: schedule {name}", 1, state(), _paused_of(state), make)
        )

    def confirm(self, token: str) -> JsonObject:
        """Make a change that was shown, by its token. A token is for that change only, for one use, and for 5 min.

        Jobs that have changed since they were shown are left out, and counted.
        """
        return self._changes.make(token)

    def _jobs(
        self, action: Action, ids: list[int] | None, filters: Mapping[str, str | None], parameters: Mapping[str, object]
    ) -> JsonObject:
        chosen = {name: value for name, value in filters.items() if value is not None}
        if ids and chosen:
            raise InvalidOption("ids", f"cannot be combined with {', '.join(chosen)}")
        if not ids and not chosen:
            raise InvalidOption("ids", "is missing: give ids, or a filter such as queue")
        jobs = self._of(action, ids) if ids else self._matching(action, chosen)
        verb = action.verb.replace("_", " ")
        shown = {"jobs": [self._summary(job) for job in jobs[:SHOWN_JOBS]]}
        options = {name: value for name, value in parameters.items() if value is not None}
        options_text = "".join(f", {name.replace('_', ' ')} {value!r}" for name, value in options.items())
        if "actor" in action.parameters:
            options["actor"] = self._actor
        change = ShownChange(
            f"{verb} {counted(len(jobs), 'job')}{options_text}",
            len(jobs),
            shown,
            lambda: None,  # each job is compared when it is changed
            lambda: self._act(action, jobs, options),
        )
        return self._changes.show(change)

    def _of(self, action: Action, ids: list[int]) -> list[Job]:
        jobs = [self._target.queue.run(get_row(self._target.queue, job_id)) for job_id in dict.fromkeys(ids)]
        for job in jobs:
            action.check(job)
        return jobs

    def _matching(self, action: Action, filters: Mapping[str, str]) -> list[Job]:
        if (status := filters.get("status")) not in (None, *action.statuses):
            raise InvalidOption("status", f"must be one of {', '.join(action.statuses)}, got {status!r}")
        options: dict[str, Any] = {"status": [str(one) for one in action.meant or action.statuses], **filters}
        page = self._target.jobs.list(**options, limit=MOST_JOBS)
        if page.next_cursor is not None:
            said = f"matches more than {MOST_JOBS:,} jobs; add another filter, or use the command"
            raise InvalidOption("filter", said)
        return list(page.jobs)

    def _act(self, action: Action, jobs: list[Job], options: Mapping[str, object]) -> JsonObject:
        """ShownChange each job that is still as it was shown."""
        act = getattr(self._target.jobs, action.name)
        done, left = 0, []
        for job in jobs:
            try:
                now = self._target.queue.run(get_row(self._target.queue, job.id))
                if (now.status, now.attempt, now.lease) != (job.status, job.attempt, job.lease):
                    left.append({"id": job.id, "problem": f"it has changed since, and is {now.status}"})
                    continue
                act(job.id, **options)
                done += 1
            except RowcallError as error:
                left.append({"id": job.id, "problem": str(error)})
        return {"changed": done, "left_out": len(left), "problems": left[:SHOWN_JOBS]}

    def _pause(self, verb: str, queue: str | None, task: str | None) -> JsonObject:
        names: dict[str, Any] = {"queue": queue, "task": task}
        act: Callable[..., Any] = getattr(self._target.jobs, verb)
        if (queue is None) is (task is None):
            raise InvalidOption("queue", "must be the name of a queue, or task the name of a task: give one of them")
        kind, name = ("queue", queue or "") if task is None else ("task", task)
        stats = self._target.jobs.stats()
        counts = stats.by_queue if kind == "queue" else stats.by_type
        chosen = counts.values() if name == "*" else [counts.get(name, {})]
        waiting = sum(jobs.get(status, 0) for jobs in chosen for status in WAITING)

        def is_paused() -> bool:
            return any((one.kind, one.name) == (kind, name) for one in self._target.jobs.stats().paused)

        def make() -> JsonObject:
            act(**names, actor=self._actor)
            return {"is_paused": is_paused()}

        already = is_paused()
        count = 0 if already is (verb == "pause") else 1
        shown: JsonObject = {"waiting_jobs": waiting, "is_paused": already}
        return self._changes.show(ShownChange(f"{verb} {what_is_paused(kind, name)}", count, shown, is_paused, make))

    def _limit(self, would: str, name: str, make: Callable[[], JsonObject]) -> JsonObject:
        def numbers() -> JsonObject:
            for limit in self._target.jobs.limits():
                if limit.name == name:
                    fields = ("concurrency", "rate", "per", "is_set")
                    return {"now": {field: getattr(limit, field) for field in fields}}
            raise InvalidOption("name", f"is not the name of a limit: {name!r}")

        return self._changes.show(ShownChange(would, 1, numbers(), numbers, make))

    def _summary(self, job: Job) -> JsonObject:
        shown = job_as_json(self._scrubbed(job))
        return {field: shown[field] for field in _SHOWN_FIELDS}

    def _scrubbed(self, value: Any) -> Any:
        return scrubbed(self._target.queue.declared.failures, value)


def _paused_of(state: Callable[[], JsonObject]) -> Callable[[], object]:
    """Return whether the schedule is paused, which must not change. Its times change on their own."""

    def paused() -> object:
        schedule = state()["schedule"]
        return schedule["paused"] if isinstance(schedule, dict) else None

    return paused
