"""The table of the API: every endpoint, from which routes, forms and the OpenAPI document are made."""

from __future__ import annotations

from rowcall.http.api import callbacks, job_changes, jobs, limits, questions, system
from rowcall.http.endpoint import Endpoint

ENDPOINTS = (
    Endpoint("GET", "/jobs", jobs.list_jobs),
    Endpoint("POST", "/jobs", jobs.enqueue_jobs, status=201),
    Endpoint("POST", "/jobs/retry", job_changes.retry_jobs),
    Endpoint("POST", "/jobs/cancel", job_changes.cancel_jobs),
    Endpoint("POST", "/jobs/delete", job_changes.delete_jobs),
    Endpoint("POST", "/jobs/reschedule", job_changes.reschedule_jobs),
    Endpoint("POST", "/jobs/priority", job_changes.set_jobs_priority),
    Endpoint("GET", "/jobs/{id}", jobs.get_job),
    Endpoint("DELETE", "/jobs/{id}", job_changes.delete_job),
    Endpoint("PATCH", "/jobs/{id}", job_changes.edit_job),
    Endpoint("POST", "/jobs/{id}/retry", job_changes.retry_job),
    Endpoint("POST", "/jobs/{id}/cancel", job_changes.cancel_job),
    Endpoint("POST", "/jobs/{id}/reschedule", job_changes.reschedule_job),
    Endpoint("POST", "/jobs/{id}/priority", job_changes.set_job_priority),
    Endpoint("POST", "/jobs/{id}/complete", job_changes.complete_job),
    Endpoint("POST", "/push/complete", callbacks.complete_pushed),
    Endpoint("POST", "/push/fail", callbacks.fail_pushed),
    Endpoint("POST", "/push/extend", callbacks.extend_pushed),
    Endpoint("GET", "/attention", questions.get_attention),
    Endpoint("GET", "/stats", questions.get_stats),
    Endpoint("GET", "/activity", questions.get_activity),
    Endpoint("GET", "/errors", questions.get_errors),
    Endpoint("GET", "/retries", questions.get_retries),
    Endpoint("GET", "/stuck", questions.get_stuck),
    Endpoint("GET", "/retention", questions.get_retention),
    Endpoint("POST", "/prune", system.prune),
    Endpoint("GET", "/queues", system.list_queues),
    Endpoint("POST", "/queues/{name:path}/pause", system.pause_queue),
    Endpoint("POST", "/queues/{name:path}/resume", system.resume_queue),
    Endpoint("GET", "/tasks", system.list_tasks),
    Endpoint("POST", "/tasks/{name:path}/pause", system.pause_task),
    Endpoint("POST", "/tasks/{name:path}/resume", system.resume_task),
    Endpoint("GET", "/limits", limits.list_limits),
    Endpoint("PATCH", "/limits/{name:path}", limits.change_limit),
    Endpoint("GET", "/schedules", system.list_schedules),
    Endpoint("POST", "/schedules/{name:path}/run", system.run_schedule),
    Endpoint("POST", "/schedules/{name:path}/pause", system.pause_schedule),
    Endpoint("POST", "/schedules/{name:path}/resume", system.resume_schedule),
    Endpoint("GET", "/workers", system.list_workers),
)
