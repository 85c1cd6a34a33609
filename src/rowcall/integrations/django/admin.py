"""Admin pages: jobs with filters, their attempts and timeline. Who may change jobs can retry and cancel them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import BigIntegerField, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from rowcall.actions import CANCEL, RETRY, Action
from rowcall.app import queue_of
from rowcall.base.text import whole_number
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import Attempt, Event, Status
from rowcall.integrations.django.models import Job
from rowcall.integrations.django.queue import jobs
from rowcall.integrations.django.site import alias, local
from rowcall.operations.arguments import KEY_LENGTH
from rowcall.overview.formats import counted
from rowcall.overview.scrub import scrubbed
from rowcall.overview.tasks import fails_at_once

MOST_COUNTED = 10_000
MOST_PROBLEMS = 10  # that a page says; all jobs of a list may be selected
MOST_NAMES, MOST_OF_EACH = 20, 50


class SomePages(Paginator):
    """Counts no further than people turn pages: a queue may have millions of jobs."""

    @cached_property
    def count(self) -> int:
        return int(self.object_list[:MOST_COUNTED].count())


class _Known(admin.SimpleListFilter):
    """Offers the values that Rowcall has counted anyway, instead of reading all rows."""

    counts: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(getattr(jobs.stats(), self.counts))]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return queryset.filter(**{self.parameter_name: self.value()}) if self.value() else queryset


class QueueFilter(_Known):
    title = parameter_name = "queue"
    counts = "by_queue"


class TaskFilter(_Known):
    title, parameter_name = "task", "type"
    counts = "by_type"


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    list_display = ("id", "type", "queue", "status", "attempt", "priority", "run_at", "finished_at", "error_code")
    list_display_links = ("id", "type")
    list_filter = ("status", QueueFilter, TaskFilter)
    search_fields = ("id",)  # shows the search; see get_search_results
    search_help_text = "An id, or a part of a task, an error code or a key. Shows the newest jobs of each."
    sortable_by = ()
    actions = ("retry", "cancel")
    list_per_page = 50
    show_full_result_count = False
    paginator = SomePages

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).using(alias())

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Find the newest jobs that match every word, without reading all: a queue may have millions of jobs."""
        for word in search_term.split():
            queryset = queryset.filter(id__in=_found_by(word))
        return queryset, False

    # a job is enqueued by code, and changes by its actions

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Job | None = None) -> list[str]:
        return [field.name for field in self.model._meta.fields]

    def get_fields(self, request: HttpRequest, obj: Job | None = None) -> list[str]:
        """Leave the most attempts out if there are no more: for a failed job, and for a task that fails at once.

        Django's tasks are such, where they are imported: they have more attempts only after the death of a worker.
        """
        names = self.get_readonly_fields(request, obj)
        task = queue_of(jobs).declared.tasks.get(obj.type) if obj is not None else None
        is_last = obj is not None and obj.status == Status.FAILED
        if is_last or (task is not None and fails_at_once(task.options.retry)):
            names.remove("max_attempts")
        return names

    def save_model(self, request: HttpRequest, obj: Job, form: object, change: bool) -> None:
        """Write nothing: the form has no fields that can change."""

    @admin.action(permissions=["change"], description="Retry selected jobs")
    def retry(self, request: HttpRequest, selected: QuerySet) -> None:
        succeeded = list(selected.filter(status=Status.SUCCEEDED).values_list("id", flat=True))
        if len(succeeded) == 1:
            self.message_user(request, f"job {succeeded[0]} has succeeded; open it to run it again", messages.WARNING)
        elif succeeded:
            problem = f"{counted(len(succeeded), 'job')} have succeeded; open each to run it again"
            self.message_user(request, problem, messages.WARNING)
        self._act(request, RETRY, selected.exclude(status=Status.SUCCEEDED).values_list("id", flat=True))

    @admin.action(permissions=["change"], description="Cancel selected jobs")
    def cancel(self, request: HttpRequest, selected: QuerySet) -> None:
        self._act(request, CANCEL, selected.values_list("id", flat=True))

    def response_change(self, request: HttpRequest, obj: Job) -> HttpResponse:
        if "_retry" in request.POST and obj.status == Status.SUCCEEDED and "_again" not in request.POST:
            self.message_user(request, f"job {obj.id} has succeeded; tick the box to run it again", messages.ERROR)
            return HttpResponseRedirect(request.path)
        for action in (RETRY, CANCEL):
            if f"_{action.name}" in request.POST:
                self._act(request, action, [obj.id])
        return HttpResponseRedirect(request.path)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        job_id = whole_number(object_id)
        shown = _shown(job_id) if request.method == "GET" and job_id is not None else {}
        return super().change_view(request, object_id, form_url, {**shown, **(extra_context or {})})

    def _act(self, request: HttpRequest, action: Action, ids: Iterable[int]) -> None:
        """Retry or cancel each, and say which could not be."""
        act, actor, done = getattr(jobs, action.name), f"admin:{request.user.get_username()}", 0
        problems = []
        for job_id in ids:
            try:
                act(job_id, actor=actor)
                done += 1
            except RowcallError as error:
                problems.append(str(error))
        for problem in problems[:MOST_PROBLEMS]:
            self.message_user(request, problem, messages.ERROR)
        if more := problems[MOST_PROBLEMS:]:
            self.message_user(request, f"{counted(len(more), 'more job')} could not be changed", messages.ERROR)
        if done:
            self.message_user(request, f"{counted(done, 'job')} {action.done}.", messages.SUCCESS)


def _found_by(word: str) -> list[int]:
    """Return the newest jobs of the tasks, error codes and keys that have the word. Each is found by an index."""
    types = list(jobs.stats().by_type)
    codes = [group.error_code for group in jobs.top_errors(limit=MOST_NAMES)]
    pages = [jobs.list(type=name, limit=MOST_OF_EACH) for name in _with_part(types, word)]
    pages += [jobs.list(status="failed", error_code=code, limit=MOST_OF_EACH) for code in _with_part(codes, word)]
    if len(word) <= KEY_LENGTH:
        pages += [jobs.list(type=name, key=word, limit=MOST_OF_EACH) for name in types[:MOST_NAMES]]
    newest = Job.objects.using(alias()).all()[:1]
    recent = Job.objects.using(alias()).filter(id__gt=max((job.id for job in newest), default=0) - MOST_COUNTED)
    job_ids = [job.id for page in pages for job in page] + list(
        recent.filter(key__icontains=word).values_list("id", flat=True)[:MOST_OF_EACH]
    )
    number = whole_number(word)
    return job_ids if number is None or number > BigIntegerField.MAX_BIGINT else [number, *job_ids]


def _with_part(names: Iterable[str], word: str) -> list[str]:
    return [name for name in names if word.casefold() in name.casefold()][:MOST_NAMES]


def _shown(job_id: int) -> dict[str, object]:
    """Return what the page of a job shows in addition to its columns."""
    try:
        job = jobs.get(job_id)
    except RowcallError:
        return {}
    failures = queue_of(jobs).declared.failures
    seen = scrubbed(failures, job)
    return {
        "payload": _json(seen.payload),
        "result": _json(seen.result) if job.status is Status.SUCCEEDED else "",
        "attempts": [_fields(scrubbed(failures, attempt)) for attempt in jobs.attempts(job_id)],
        "timeline": [_fields(scrubbed(failures, event)) for event in jobs.timeline(job_id)],
        "may_retry": job.status in RETRY.statuses,
        "has_failed": job.status is Status.FAILED,
        "has_succeeded": job.status is Status.SUCCEEDED,
        "may_cancel": job.status in CANCEL.statuses,
    }


def _fields(value: Attempt | Event) -> dict[str, object]:
    """Return the fields as they are: a template would look `value["at"]` up first, which is a text."""
    fields = msgspec.structs.asdict(value)
    return {name: local(field) if isinstance(field, datetime) else field for name, field in fields.items()}


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode()
