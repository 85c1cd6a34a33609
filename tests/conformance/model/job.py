"""One job of the model: its row and its attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

BY_HAND = "CANCELLED:BY_HAND"
DEFAULT_MAX_ATTEMPTS = 5


@dataclass
class ModelAttempt:
    """One attempt, as `jobs.attempts` shows it; however clocks are set, it is never claimed before its
    job was enqueued, and never ends before it was claimed.
    """

    number: int
    status: str
    claimed_at: datetime
    started_at: datetime | None
    worker: str
    finished_at: datetime | None = None
    error_code: str | None = None
    next_run_at: datetime | None = None


@dataclass
class ModelBackoff:
    """The retry policy: the same pause each time, or one that grows on its own."""

    seconds: float = 30
    growing: bool = True

    def after(self, attempt: int) -> timedelta:
        return timedelta(seconds=self.seconds * (attempt if self.growing else 1))


class JobOptions(NamedTuple):
    """The options of a new job."""

    queue: str
    priority: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    delay: int = 0
    expires_in: int | None = None
    retry_after: int | None = None
    tags: tuple[str, ...] = ()

    @property
    def backoff(self) -> ModelBackoff:
        return ModelBackoff() if self.retry_after is None else ModelBackoff(self.retry_after, growing=False)


@dataclass
class ModelJob:
    id: int
    queue: str
    priority: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    backoff: ModelBackoff
    expires_at: datetime | None
    status: str
    type: str = "work"
    tags: tuple[str, ...] = ()
    used: int = 0
    error_code: str | None = None
    finished_at: datetime | None = None
    result: object = None
    was_lost: bool = False
    past: list[ModelAttempt] = field(default_factory=list)
    latest: ModelAttempt | None = None
    token: int | None = None
    lease: timedelta | None = None
    lease_until: datetime | None = None
    moves: int = 0
    asked_to_end: bool = False

    @property
    def attempts(self) -> list[ModelAttempt]:
        return [*self.past, *([self.latest] if self.latest else [])]

    @property
    def waits(self) -> bool:
        return self.status in ("blocked", "scheduled", "pending")

    @property
    def finished(self) -> bool:
        return self.status in ("succeeded", "failed", "cancelled")

    def running(self) -> ModelAttempt:
        assert self.status == "running"
        assert self.latest is not None
        return self.latest

    def begin(self, worker: str, now: datetime, token: int, *, started: bool) -> None:
        self.status, self.token, self.asked_to_end = "running", token, False
        self.used += 1
        self.latest = ModelAttempt(self.used, "running", now, now if started else None, worker)
        self.error_code = self.finished_at = self.result = None
        self.moves += 1

    def end(self, status: str, now: datetime, code: str | None = None) -> None:
        """End the attempt and the job."""
        if self.asked_to_end and status not in ("succeeded", "cancelled"):
            status, code = "cancelled", BY_HAND
        attempt = self.running()
        self.finished_at = attempt.finished_at = max(now, attempt.claimed_at)
        self.error_code = attempt.error_code = code
        attempt.status = status
        self._let_go("failed" if status == "lost" else status)

    def await_next_attempt(
        self,
        status: str,
        attempt_status: str,
        now: datetime,
        *,
        code: str | None = None,
        run_at: datetime | None = None,
        counts: bool = True,
        recorded: bool = True,
    ) -> None:
        """End the attempt, and let another follow unless a cancel was requested."""
        if self.asked_to_end:
            self.end("cancelled", now, BY_HAND)
            return
        attempt = self.running()
        attempt.status, attempt.error_code, attempt.next_run_at = attempt_status, code, run_at
        attempt.finished_at = max(now, attempt.claimed_at)
        if recorded:
            self.past.append(attempt)
            self.expires_at = None  # it was started
        if not counts:
            self.used -= 1
        self.latest = None
        self.error_code = code
        self.run_at = run_at or self.run_at
        self._let_go(status)

    def _let_go(self, status: str) -> None:
        self.status = status
        self.token = self.lease = self.lease_until = None
        self.moves += 1
