"""The pages of the admin."""

from __future__ import annotations

from django.contrib.auth.models import Permission, User
from django.test import TestCase
from django.utils import timezone

from rowcall.django import jobs, run_jobs
from rowcall.integrations.django.admin import MOST_COUNTED, MOST_PROBLEMS, SomePages
from rowcall.integrations.django.models import Job
from tests.integrations.django.shop import tasks

LIST = "/admin/rowcall/job/"


class TestAdmin(TestCase):
    def log_in(self, *permissions: str) -> None:
        user = User.objects.create(username="ann", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        self.client.force_login(user)

    def test_jobs_are_listed_and_filtered(self) -> None:
        self.log_in("view_job")
        tasks.confirm.using(queue="mail", key="order-7-book").enqueue(1)
        failed = tasks.fail.enqueue("no stock")
        run_jobs(raise_errors=False)
        page = self.client.get(LIST)
        self.assertContains(page, "confirm")
        self.assertContains(page, "INTERNAL:ValueError")
        for query, shown in {
            "status=failed": 1,
            "queue=mail": 1,
            "type=confirm": 1,
            f"q={failed.id}": 1,
            "q=x": 0,
            "q=ONFIR": 1,
            "q=confirm+ValueE": 0,
            "q=Value": 1,
            "q=7-b": 1,
            "q=order-7-book": 1,
            f"q={10**23}": 0,
            f"q={'9' * 5000}": 0,
        }.items():
            page = self.client.get(f"{LIST}?{query}")
            self.assertContains(page, f"{shown} job")
            self.assertEqual(len(page.context["cl"].result_list), shown, query)

    def test_a_page_shows_the_timeline_and_the_attempts(self) -> None:
        self.log_in("view_job")
        result = tasks.fail.enqueue("<b>no stock</b>")
        run_jobs(raise_errors=False)
        page = self.client.get(f"{LIST}{result.id}/change/")
        for event in ("ENQUEUED", "STARTED", "FAILED"):
            self.assertContains(page, f"<td>{event}</td>")
        self.assertContains(page, "&lt;b&gt;no stock&lt;/b&gt;")
        self.assertContains(page, "Traceback (most recent call last)")
        attempt = jobs.attempts(int(result.id))[0]
        for at in (*(event.at for event in jobs.timeline(int(result.id))), attempt.started_at, attempt.finished_at):
            self.assertContains(page, f"<td>{timezone.localtime(at):%Y-%m-%d %H:%M:%S}</td>")
        with self.settings(USE_TZ=False):
            local = self.client.get(f"{LIST}{result.id}/change/")
            self.assertContains(local, f"<td>{timezone.make_naive(attempt.claimed_at):%Y-%m-%d %H:%M:%S}</td>")
        self.assertNotContains(page, 'type="submit" value="Retry"')
        for missing in (999, 10**23, "9" * 5000):
            answer = self.client.get(f"{LIST}{missing}/change/")
            self.assertEqual(answer.status_code, 302)  # Django: it does not exist

    def test_a_task_that_fails_at_once_has_no_maximum_of_attempts(self) -> None:
        self.log_in("view_job")
        jobs.enqueue("elsewhere", max_attempts=1)
        (failed,) = jobs.claim("by hand")
        jobs.fail(failed, "SHOP:GONE")
        for job, shown in ((tasks.fail.enqueue("no stock"), False), (tasks.confirm.enqueue(1), True), (failed, False)):
            page = self.client.get(f"{LIST}{job.id}/change/")
            self.assertEqual("Max attempts" in page.text, shown)

    def test_actions_need_the_permission_to_change(self) -> None:
        self.log_in("view_job")
        job = tasks.confirm.enqueue(1)
        self.client.post(LIST, {"action": "cancel", "_selected_action": [job.id]})
        self.assertEqual(self.client.post(f"{LIST}{job.id}/change/", {"_cancel": "1"}).status_code, 403)
        self.assertEqual(jobs.get(job.id).status, "pending")
        for path in (f"{LIST}add/", f"{LIST}{job.id}/delete/"):
            self.assertEqual(self.client.get(path).status_code, 403)

    def test_jobs_are_cancelled_and_retried(self) -> None:
        self.log_in("view_job", "change_job")
        first, second = tasks.confirm.enqueue(1), tasks.confirm.enqueue(2)
        page = self.client.post(LIST, {"action": "cancel", "_selected_action": [first.id, second.id]}, follow=True)
        self.assertContains(page, "2 jobs cancelled, or asked to stop.")
        self.assertEqual(jobs.timeline(first.id)[-1].actor, "admin:ann")
        page = self.client.get(f"{LIST}{first.id}/change/")
        self.assertContains(page, 'value="Retry" name="_retry"')
        page = self.client.post(f"{LIST}{first.id}/change/", {"_retry": "1"}, follow=True)
        self.assertContains(page, "1 job will run again.")
        self.assertEqual(jobs.get(first.id).status, "pending")
        page = self.client.post(LIST, {"action": "retry", "_selected_action": [first.id]}, follow=True)
        self.assertContains(page, "pending")  # why it cannot be retried
        self.assertNotContains(page, "will run again")

    def test_a_job_that_has_succeeded_runs_again_only_after_a_question(self) -> None:
        self.log_in("view_job", "change_job")
        done, cancelled = tasks.confirm.enqueue(1), tasks.confirm.enqueue(2)
        jobs.complete(done.id, None)
        jobs.cancel(cancelled.id)
        page = self.client.post(LIST, {"action": "retry", "_selected_action": [done.id, cancelled.id]}, follow=True)
        self.assertContains(page, "1 job will run again.")
        self.assertContains(page, f"Job {done.id} has succeeded; open it to run it again")
        path = f"{LIST}{done.id}/change/"
        page = self.client.get(path)
        self.assertContains(page, 'name="_again" required')
        self.assertNotContains(page, 'name="_retry" class="default"')
        self.assertContains(self.client.post(path, {"_retry": "1"}, follow=True), "tick the box")
        self.assertEqual(jobs.get(done.id).status, "succeeded")
        self.client.post(path, {"_retry": "1", "_again": "on"})
        self.assertEqual(jobs.get(done.id).status, "pending")

    def test_the_problems_of_many_jobs_are_few_messages(self) -> None:
        self.log_in("view_job", "change_job")
        made = tasks.confirm.enqueue_many([{"order_id": number} for number in range(MOST_PROBLEMS + 5)])
        for job in made[:3]:
            jobs.complete(job.id, None)
        page = self.client.post(LIST, {"action": "retry", "_selected_action": [job.id for job in made]}, follow=True)
        self.assertContains(page, "3 jobs have succeeded; open each to run it again")
        self.assertContains(page, "2 more jobs could not be changed")
        self.assertEqual(len(page.context["messages"]), MOST_PROBLEMS + 2)

    def test_pages_are_counted_up_to_a_limit(self) -> None:
        tasks.confirm.enqueue(1)
        self.assertEqual(SomePages(Job.objects.all(), 50).count, 1)
        self.assertIn(f"LIMIT {MOST_COUNTED}", str(Job.objects.all()[:MOST_COUNTED].query))
