"""The dashboard for staff, below a path of the project."""

from __future__ import annotations

import importlib
import re
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import urlencode

from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.test import Client, RequestFactory, TestCase
from django.urls import path, reverse

from rowcall.django import jobs, run_jobs
from rowcall.http.refusals import response_of
from rowcall.integrations.django.dashboard import dashboard
from tests.integrations.django.shop import tasks

SITE = "/ops/jobs/"
BROWSER = "text/html,*/*;q=0.8"
urlpatterns = [path("jobs/", dashboard)]


class TestDashboard(TestCase):
    def log_in(self, *permissions: str, is_staff: bool = True) -> None:
        user = User.objects.create(username="ann", is_staff=is_staff)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        self.client = Client(enforce_csrf_checks=True, headers={"accept": BROWSER})
        self.client.force_login(user)

    def test_staff_see_the_pages_and_use_the_forms(self) -> None:
        self.log_in("view_job", "change_job")
        job = tasks.fail.enqueue("no stock")
        run_jobs(raise_errors=False)
        page = self.client.get(f"{SITE}jobs/{job.id}")
        self.assertContains(page, "no stock")
        self.assertContains(page, f'href="{SITE}static/rowcall.css')
        self.assertContains(self.client.get(SITE), "ann")
        self.assertContains(self.client.get(f"{SITE}static/rowcall.css"), "{")
        found = re.search(r'name="csrf" value="([^"]+)"', page.text)
        assert found is not None
        for csrf, origin, status in (
            ("wrong", "http://testserver", 403),
            (found[1], "https://evil.example", 403),
            (found[1], "http://testserver", 303),
        ):
            form = urlencode({"csrf": csrf, "return_to": f"{SITE}jobs/{job.id}"})
            answer = self.client.post(
                f"{SITE}jobs/{job.id}/retry",
                form,
                content_type="application/x-www-form-urlencoded",
                headers={"origin": origin},
            )
            location = f"{SITE}jobs/{job.id}" if status == 303 else None
            self.assertEqual((answer.status_code, answer.headers.get("location")), (status, location))
        self.assertEqual((jobs.get(int(job.id)).status, jobs.timeline(int(job.id))[-1].actor), ("pending", "ann"))

    def test_the_api(self) -> None:
        self.log_in("view_job")
        job = tasks.add.enqueue(1)
        self.assertEqual(self.client.get(f"{SITE}api/jobs/{job.id}").json()["job"]["status"], "pending")
        answer = self.client.post(f"{SITE}api/jobs/{job.id}/cancel", {}, content_type="application/json")
        self.assertEqual((answer.status_code, jobs.get(int(job.id)).status), (403, "pending"))

    def test_others_are_led_to_the_login_or_refused(self) -> None:
        browser = {"accept": BROWSER}
        answer = self.client.get(f"{SITE}jobs?status=failed", headers=browser)
        login = f"{reverse('admin:login')}?next=/ops/jobs/jobs%3Fstatus%3Dfailed"
        self.assertEqual((answer.status_code, answer.headers["location"]), (302, login))
        for where in ("api/jobs", "metrics"):
            problem = self.client.get(f"{SITE}{where}", headers=browser)
            self.assertEqual((problem.status_code, problem.json()["title"]), (401, "Unauthorized"))
        form = self.client.post(f"{SITE}jobs/1/retry", headers=browser)
        self.assertEqual(form.headers["location"], f"{reverse('admin:login')}?next={SITE}")
        with self.settings(ROOT_URLCONF=__name__, LOGIN_URL="/sign-in/"):
            self.assertEqual(self.client.get("/jobs/").headers["location"], "/sign-in/?next=/jobs/")
        self.log_in(is_staff=True)
        self.assertContains(self.client.get(SITE), "rowcall.view_job", status_code=403)
        self.assertIn("rowcall.view_job", self.client.get(f"{SITE}api/jobs", headers={"accept": "*/*"}).json()["title"])
        User.objects.all().delete()
        self.log_in("view_job", is_staff=False)
        self.assertEqual(self.client.get(SITE).status_code, 403)

    def test_the_admin_links_to_it(self) -> None:
        self.log_in("view_job")
        job = tasks.add.enqueue(1)
        listed = f'<li><a href="{SITE}">Dashboard</a></li>'
        self.assertContains(self.client.get("/admin/rowcall/job/"), listed, html=True)
        page = self.client.get(f"/admin/rowcall/job/{job.id}/change/")
        self.assertContains(page, f'<li><a href="{SITE}jobs/{job.id}">Dashboard</a></li>', html=True)

    def test_the_middleware_of_django_is_needed(self) -> None:
        with self.assertRaisesMessage(ImproperlyConfigured, "AuthenticationMiddleware"):
            dashboard(RequestFactory().get("/jobs/"))

    def test_without_the_libraries_the_error_says_what_to_install(self) -> None:
        module = "rowcall.integrations.django.dashboard"
        loaded = {name: found for name, found in sys.modules.items() if name not in (module, "rowcall.django.urls")}
        with (
            mock.patch.dict(sys.modules, {**loaded, "starlette": None, "rowcall.http.hosted": None}, clear=True),
            self.assertRaisesMessage(ImproperlyConfigured, "pip install 'rowcall[http]'"),
        ):
            importlib.import_module("rowcall.django.urls")

    def test_a_query_that_is_not_encoded(self) -> None:
        """Django has decoded it, if the server is one for ASGI."""
        request: Any = RequestFactory().get("/jobs/jobs", QUERY_STRING="type=za\u0142oga")
        request.user = User(username="ann", is_staff=True, is_superuser=True)
        self.assertContains(dashboard(request, "jobs"), "za\u0142oga")

    def test_the_origins_that_the_project_trusts_may_use_forms(self) -> None:
        request: Any = RequestFactory().post("/jobs/pause", headers={"origin": "https://ops.example"})
        request.user = User(username="ann", is_staff=True, is_superuser=True)
        self.assertContains(dashboard(request, "pause"), "is not this site", status_code=403)
        with self.settings(CSRF_TRUSTED_ORIGINS=["https://ops.example"]):
            self.assertNotContains(dashboard(request, "pause"), "is not this site", status_code=404)

    def test_authorize_may_return_a_response_of_django(self) -> None:
        made = response_of(HttpResponse("no", status=403, headers={"x-reason": "bob"}))
        self.assertEqual((made.status_code, made.body, made.headers["x-reason"]), (403, b"no", "bob"))
        with self.assertRaisesMessage(Exception, "got SimpleNamespace"):
            response_of(SimpleNamespace(status_code=403))
