"""A real browser, headless, and a dashboard that a real server serves to it."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from rowcall import Context, Rowcall
from tests.http.server import served

REQUIRE_CHROMIUM = "ROWCALL_REQUIRE_CHROMIUM"
LONG = "import_all_rows_of_each_customer"
TRACE_URL = "https://traces.example.com/{trace_id}"

expect.set_options(timeout=60_000)  # on a busy machine, counts that took long are shown for a while


@pytest.fixture(scope="module")  # not longer: Playwright's event loop would be in the way of tests that run one
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get(REQUIRE_CHROMIUM) == "1":
            pytest.fail(f"Chromium is not installed, and {REQUIRE_CHROMIUM} asks for it")
        pytest.skip("Chromium is not installed (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        with closing(playwright.chromium.launch(executable_path=program, args=options)) as found:
            yield found


class Shop:
    """Tasks and jobs to look at. `report` runs until the test lets it continue."""

    def __init__(self, jobs: Rowcall) -> None:
        self.jobs = jobs
        self.halfway, self.resume = threading.Event(), threading.Event()

        @jobs.task(max_attempts=1, queue="payments")
        def charge_card(customer: int) -> None:
            raise ValueError(f"the card of customer {customer} was declined")

        @jobs.task(queue="mail", tags=["newsletter"])
        def send_email(to: str) -> str:
            return f"sent to {to}"

        @jobs.task(max_attempts=3, queue="webhooks")
        def deliver_webhook(url: str) -> None:
            raise ConnectionError(f"{url} answered 503")

        @jobs.task
        def report(ctx: Context, month: str) -> str:
            ctx.progress(0.25, "reading orders")
            self.halfway.set()
            assert self.resume.wait(30)
            ctx.progress(0.75, "adding up")
            return month

        self.charge_card, self.send_email = charge_card, send_email

    def fill(self) -> None:
        """Write jobs of every state. Jobs 1 to 5 fail, 6 to 45 succeed."""
        jobs = self.jobs
        self.charge_card.enqueue_many([{"customer": number} for number in range(5)])
        self.send_email.enqueue_many([{"to": f"customer{number}@example.com"} for number in range(40)])
        jobs.enqueue("deliver_webhook", {"url": "https://hooks.example.com/orders"})
        jobs.drain()
        first = jobs.enqueue("report", {"month": "2026-01"}, delay=3600, key="january", tags=["monthly"])
        jobs.enqueue("report", {"month": "2026-02"}, after=[first])
        jobs.cancel(jobs.enqueue("report", {"month": "2026-03"}, priority=5).id, "not this month", actor="ann")
        jobs.enqueue("archive", {"year": 2025})
        jobs.claim("by-hand:1", limit=1, queues=["default"])
        jobs.enqueue("send_email", {"to": "late@example.com"}, queue="slow")
        jobs.pause("slow", actor="ann")
        jobs.enqueue(f"{LONG}_of_the_night", {"path": "IMG_1.jpg"}, queue="imports-of-the-whole-night", priority=-1)
        jobs.add_schedule("nightly", "report", {"month": "all"}, cron="0 3 * * *", tz="Europe/Berlin")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Rowcall(tmp_path / "shop.db", durability="normal") as jobs:
        found = Shop(jobs)
        found.fill()
        yield found


@pytest.fixture
def site(shop: Shop) -> Iterator[str]:
    with served(shop.jobs, trace_url=TRACE_URL) as found:
        yield found.site


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """A window of the browser. Every error in it, and every request to another host, fails the test."""
    with window(browser, site) as found:
        yield found


@contextmanager
def window(
    browser: Browser, site: str, *, width: int = 1280, dark: bool = False, scripts: bool = True
) -> Iterator[Page]:
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        base_url=site,
        viewport={"width": width, "height": 800},
        color_scheme=scheme,  # type: ignore[arg-type]
        java_script_enabled=scripts,
        reduced_motion="reduce",
    )
    context.set_default_timeout(15_000)
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(site) else wrong.append(request.url))
    with closing(context):
        yield page
    assert [said for said in wrong if not re.search(r"404 \(Not Found\)|403 \(Forbidden\)", said)] == []
