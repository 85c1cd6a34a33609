"""Jobs as a model of Django."""

from __future__ import annotations

from datetime import timedelta

from django.test import TestCase, override_settings
from django.utils import timezone

from rowcall.django import jobs
from rowcall.integrations.django.models import Job
from tests.integrations.django.shop import tasks


class TestJob(TestCase):
    def test_it_has_the_values_of_the_job(self) -> None:
        made = jobs.get(int(tasks.add.using(priority=3).enqueue(1).id))
        job = Job.objects.get()
        for name in ("id", "type", "queue", "status", "priority", "attempt", "run_at", "created_at", "finished_at"):
            self.assertEqual(getattr(job, name), getattr(made, name), name)
        self.assertEqual(str(job), f"{tasks.__name__}.add {made.id}")
        with override_settings(USE_TZ=False):
            self.assertIsNone(Job.objects.get().created_at.tzinfo)

    def test_times_can_be_compared(self) -> None:
        tasks.add.enqueue(1)
        ago = timezone.now() - timedelta(minutes=1)
        self.assertEqual(
            (Job.objects.filter(run_at__gt=ago).count(), Job.objects.filter(run_at__lt=ago).count()), (1, 0)
        )
