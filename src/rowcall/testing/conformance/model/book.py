"""The queue as its documentation describes it, in plain Python: no SQL, and no logic of the real one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from rowcall.testing.conformance.model.entry import BY_HAND, Entry, Pauses

LOST = "WORKER:LOST"
EXPIRED = "EXPIRED:NOT_STARTED"
DEFAULT_MAX_ATTEMPTS = 5


class Book:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.entries: dict[int, Entry] = {}
        self.dead_workers: set[str] = set()

    # coming in

    def enqueue(
        self,
        job_id: int,
        *,
        queue: str,
        priority: int,
        max_attempts: int,
        delay: int,
        expires_in: int | None,
        pauses: Pauses,
    ) -> None:
        now = self._now()
        self.entries[job_id] = Entry(
            id=job_id,
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            created_at=now,
            run_at=now + timedelta(seconds=delay),
            pauses=pauses,
            expires_at=None if expires_in is None else now + timedelta(seconds=expires_in),
            status="scheduled" if delay > 0 else "pending",
        )

    # falling due

    def stage(self) -> None:
        """What was not started in time is over; what is due may run."""
        now = self._now()
        for entry in self.entries.values():
            if self._is_expired(entry):
                entry.status, entry.error_code, entry.finished_at = "cancelled", EXPIRED, now
            elif _is_due(entry, now):
                entry.status = "pending"

    def moments(self) -> list[datetime]:
        """When something will fall due by itself, from now on."""
        now = self._now()
        times = [entry.run_at for entry in self.entries.values() if entry.status == "scheduled"]
        times += [entry.expires_at for entry in self.entries.values() if self._can_expire(entry) and entry.expires_at]
        return sorted({at for at in times if at > now})

    def something_is_due(self) -> bool:
        now = self._now()
        return any(self._is_expired(entry) or _is_due(entry, now) for entry in self.entries.values())

    def will_be_ready(self, queue: str) -> bool:
        """Whether a claim from the queue would find something."""
        now = self._now()
        return any(
            (entry.status == "pending" or _is_due(entry, now)) and not self._is_expired(entry)
            for entry in self.entries.values()
            if entry.queue == queue
        )

    def _can_expire(self, entry: Entry) -> bool:
        return entry.waits and entry.used == 0 and entry.expires_at is not None

    def _is_expired(self, entry: Entry) -> bool:
        return self._can_expire(entry) and entry.expires_at is not None and entry.expires_at <= self._now()

    def ready(self, queue: str) -> list[int]:
        """What may be claimed from a queue, in order."""
        waiting = [entry for entry in self.entries.values() if entry.status == "pending" and entry.queue == queue]
        return [entry.id for entry in sorted(waiting, key=lambda entry: (-entry.priority, entry.id))]

    def may_be_buffered(self, job_id: int) -> bool:
        entry = self.entries[job_id]
        return not entry.was_lost and entry.used + 1 < entry.max_attempts

    def claim(self, job_id: int, worker: str, token: int, *, lease: int | None, started: bool = True) -> None:
        entry, now = self.entries[job_id], self._now()
        assert entry.status == "pending", f"job {job_id} was claimed while it was {entry.status}"
        entry.begin(worker, max(now, entry.created_at), token, started=started)
        if lease is not None:
            entry.lease = timedelta(seconds=lease)
            entry.lease_until = now + entry.lease

    # the end of an attempt

    def owns(self, job_id: int, token: int) -> bool:
        entry = self.entries.get(job_id)
        return entry is not None and entry.token == token

    def start(self, job_id: int) -> None:
        """A buffered job gets its turn."""
        attempt = self.entries[job_id].running()
        attempt.started_at = max(self._now(), attempt.claimed_at)

    def is_started(self, job_id: int) -> bool:
        return self.entries[job_id].running().started_at is not None

    def heartbeat(self, job_id: int) -> None:
        entry = self.entries[job_id]
        if entry.lease is not None and not entry.asked_to_end:
            entry.lease_until = self._now() + entry.lease

    def complete(self, job_id: int, result: object) -> None:
        self.entries[job_id].end("succeeded", self._now())
        self.entries[job_id].result = result

    def is_asked_to_end(self, job_id: int) -> bool:
        return self.entries[job_id].asked_to_end

    def fail(self, job_id: int, code: str, *, pause: timedelta | None = None) -> None:
        """A failed attempt: retried after a pause, or the end."""
        entry, now = self.entries[job_id], self._now()
        if entry.used >= entry.max_attempts:
            entry.end("failed", now, code)
        else:
            run_at = now + (entry.pauses.after(entry.used) if pause is None else pause)
            entry.go_on("scheduled", "failed", now, code=code, run_at=run_at)

    def give_up(self, job_id: int, code: str) -> None:
        self.entries[job_id].end("failed", self._now(), code)

    def cancel_from_inside(self, job_id: int) -> None:
        self.entries[job_id].end("cancelled", self._now(), "CANCELLED:BY_HANDLER")

    def snooze(self, job_id: int, pause: timedelta) -> None:
        now = self._now()
        self.entries[job_id].go_on("scheduled", "snoozed", now, run_at=now + pause, counts=False)

    def release(self, job_id: int) -> None:
        started = self.is_started(job_id)
        self.entries[job_id].go_on("pending", "released", self._now(), counts=False, recorded=started)

    # owners that are gone

    def recover_dead_workers(self) -> int:
        gone = [
            entry for entry in self._running() if entry.lease is None and entry.running().worker in self.dead_workers
        ]
        return self._lose(gone)

    def expiring_leases(self) -> list[datetime]:
        return [entry.lease_until for entry in self._running() if entry.lease_until is not None]

    def recover_expired_leases(self) -> int:
        now = self._now()
        return self._lose([entry for entry in self._running() if entry.lease_until and entry.lease_until <= now])

    def _running(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.status == "running"]

    def _lose(self, entries: list[Entry]) -> int:
        for entry in entries:
            entry.was_lost = True
            if not self.is_started(entry.id):
                entry.go_on("pending", "lost", self._now(), counts=False, recorded=False)
            elif entry.used >= entry.max_attempts:
                entry.end("lost", self._now(), LOST)
            else:
                entry.go_on("pending", "lost", self._now(), code=LOST)
        return len(entries)

    # steering

    def cancel(self, job_id: int) -> None:
        """Cancel a waiting job; ask a running one to stop."""
        entry = self.entries[job_id]
        if entry.status == "running":
            entry.asked_to_end = True
        else:
            entry.status, entry.error_code, entry.finished_at = "cancelled", BY_HAND, self._now()

    def retry(self, job_id: int) -> None:
        entry = self.entries[job_id]
        if entry.latest is not None:
            entry.past.append(entry.latest)
            entry.latest = None
        entry.status, entry.run_at = "pending", self._now()
        entry.max_attempts += DEFAULT_MAX_ATTEMPTS
        entry.error_code = entry.finished_at = entry.result = entry.expires_at = None
        entry.was_lost = False

    def delete(self, job_id: int) -> None:
        del self.entries[job_id]


def _is_due(entry: Entry, now: datetime) -> bool:
    return entry.status == "scheduled" and entry.run_at <= now
