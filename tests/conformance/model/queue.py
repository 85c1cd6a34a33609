"""The queue as its documentation describes it, in plain Python: no SQL, and no logic of the real one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from tests.conformance.model.job import BY_HAND, DEFAULT_MAX_ATTEMPTS, JobOptions, ModelJob

LOST = "WORKER:LOST"
EXPIRED = "EXPIRED:NOT_STARTED"


class ModelQueue:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.jobs: dict[int, ModelJob] = {}
        self.dead_workers: set[str] = set()

    # coming in

    def enqueue(self, job_id: int, options: JobOptions) -> None:
        now = self._now()
        self.jobs[job_id] = ModelJob(
            id=job_id,
            queue=options.queue,
            priority=options.priority,
            max_attempts=options.max_attempts,
            created_at=now,
            run_at=now + timedelta(seconds=options.delay),
            backoff=options.backoff,
            expires_at=None if options.expires_in is None else now + timedelta(seconds=options.expires_in),
            status="scheduled" if options.delay > 0 else "pending",
            tags=options.tags,
        )

    # falling due

    def stage(self) -> None:
        """What was not started in time is over; what is due may run."""
        now = self._now()
        for job in self.jobs.values():
            if self._is_expired(job):
                job.status, job.error_code, job.finished_at = "cancelled", EXPIRED, now
            elif _is_due(job, now):
                job.status = "pending"

    def moments(self) -> list[datetime]:
        """When something will fall due on its own, from now on."""
        now = self._now()
        times = [job.run_at for job in self.jobs.values() if job.status == "scheduled"]
        times += [job.expires_at for job in self.jobs.values() if self._can_expire(job) and job.expires_at]
        return sorted({at for at in times if at > now})

    def something_is_due(self) -> bool:
        now = self._now()
        return any(self._is_expired(job) or _is_due(job, now) for job in self.jobs.values())

    def will_be_ready(self, queue: str) -> bool:
        """Whether a claim from the queue would find something."""
        now = self._now()
        return any(
            (job.status == "pending" or _is_due(job, now)) and not self._is_expired(job)
            for job in self.jobs.values()
            if job.queue == queue
        )

    def _can_expire(self, job: ModelJob) -> bool:
        return job.waits and job.used == 0 and job.expires_at is not None

    def _is_expired(self, job: ModelJob) -> bool:
        return self._can_expire(job) and job.expires_at is not None and job.expires_at <= self._now()

    def ready(self, queue: str) -> list[int]:
        """What may be claimed from a queue, in order."""
        waiting = [job for job in self.jobs.values() if job.status == "pending" and job.queue == queue]
        return [job.id for job in sorted(waiting, key=lambda job: (-job.priority, job.id))]

    def is_charged(self, job_id: int) -> bool:
        """Return whether a job that only waits in a buffer pays for the loss of its worker."""
        return self.jobs[job_id].was_lost

    def claim(self, job_id: int, worker: str, token: int, *, lease: int | None, started: bool = True) -> None:
        job, now = self.jobs[job_id], self._now()
        assert job.status == "pending", f"job {job_id} was claimed while it was {job.status}"
        job.begin(worker, max(now, job.created_at), token, started=started)
        if lease is not None:
            job.lease = timedelta(seconds=lease)
            job.lease_until = now + job.lease

    # the end of an attempt

    def owns(self, job_id: int, token: int) -> bool:
        job = self.jobs.get(job_id)
        return job is not None and job.token == token

    def start(self, job_id: int) -> None:
        """A buffered job gets its turn."""
        attempt = self.jobs[job_id].running()
        attempt.started_at = max(self._now(), attempt.claimed_at)

    def is_started(self, job_id: int) -> bool:
        return self.jobs[job_id].running().started_at is not None

    def heartbeat(self, job_id: int) -> None:
        job = self.jobs[job_id]
        if job.lease is not None and not job.asked_to_end:
            job.lease_until = self._now() + job.lease

    def complete(self, job_id: int, result: object) -> None:
        self.jobs[job_id].end("succeeded", self._now())
        self.jobs[job_id].result = result

    def is_asked_to_end(self, job_id: int) -> bool:
        return self.jobs[job_id].asked_to_end

    def fail(self, job_id: int, code: str, *, pause: timedelta | None = None) -> None:
        """A failed attempt: retried after a pause, or the end."""
        job, now = self.jobs[job_id], self._now()
        if job.used >= job.max_attempts:
            job.end("failed", now, code)
        else:
            run_at = now + (job.backoff.after(job.used) if pause is None else pause)
            job.await_next_attempt("scheduled", "failed", now, code=code, run_at=run_at)

    def give_up(self, job_id: int, code: str) -> None:
        self.jobs[job_id].end("failed", self._now(), code)

    def cancel_from_inside(self, job_id: int) -> None:
        self.jobs[job_id].end("cancelled", self._now(), "CANCELLED:BY_HANDLER")

    def snooze(self, job_id: int, pause: timedelta) -> None:
        now = self._now()
        self.jobs[job_id].await_next_attempt("scheduled", "snoozed", now, run_at=now + pause, counts=False)

    def release(self, job_id: int) -> None:
        started = self.is_started(job_id)
        self.jobs[job_id].await_next_attempt("pending", "released", self._now(), counts=False, recorded=started)

    # owners that are gone

    def recover_dead_workers(self) -> int:
        gone = [job for job in self.running_jobs() if job.lease is None and job.running().worker in self.dead_workers]
        return self._lose(gone)

    def expiring_leases(self) -> list[datetime]:
        return [job.lease_until for job in self.running_jobs() if job.lease_until is not None]

    def recover_expired_leases(self) -> int:
        now = self._now()
        return self._lose([job for job in self.running_jobs() if job.lease_until and job.lease_until <= now])

    def running_jobs(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.status == "running"]

    def _lose(self, jobs: list[ModelJob]) -> int:
        for job in jobs:
            job.was_lost = True
            if not self.is_started(job.id):
                job.await_next_attempt("pending", "lost", self._now(), counts=False, recorded=False)
            elif job.used >= job.max_attempts:
                job.end("lost", self._now(), LOST)
            else:
                job.await_next_attempt("pending", "lost", self._now(), code=LOST)
        return len(jobs)

    # control

    def cancel(self, job_id: int) -> None:
        """Cancel a waiting job; ask a running one to stop."""
        job = self.jobs[job_id]
        if job.status == "running":
            job.asked_to_end = True
        else:
            job.status, job.error_code, job.finished_at = "cancelled", BY_HAND, self._now()

    def retry(self, job_id: int) -> None:
        job = self.jobs[job_id]
        if job.latest is not None:
            job.past.append(job.latest)
            job.latest = None
        job.status, job.run_at = "pending", self._now()
        job.max_attempts += DEFAULT_MAX_ATTEMPTS
        job.error_code = job.finished_at = job.result = job.expires_at = None
        job.was_lost = False

    def delete(self, job_id: int) -> None:
        del self.jobs[job_id]


def _is_due(job: ModelJob, now: datetime) -> bool:
    return job.status == "scheduled" and job.run_at <= now
