"""Take the screenshots of docs/screenshots: `make screenshots`. It needs Chromium (Debian: apt-get install chromium).

`make screenshots ARGS="--all build/screens"` takes every page in light, dark and on a phone instead, to be looked at.

A simulated clock lets a shop work for a day; then the dashboard is served, and Chromium looks at it.
"""

from __future__ import annotations

import math
import random
import re
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, FloatRect, Locator, ViewportSize, sync_playwright

from rowcall import Access, Limit, Rowcall
from rowcall.app import queue_of
from rowcall.http.serve import server_of
from rowcall.http.server_options import settings
from rowcall.operations.effects import Write
from rowcall.operations.retention import sample
from rowcall.store.counts.samples import note_code
from rowcall.testing import FakeClock, eventually

FOLDER = Path(__file__).with_name("screenshots")
HOURS = 26
ERRORS = {
    "charge_card": ("PAYMENT:DECLINED", "the card was declined by the issuer (insufficient_funds)", 0.12),
    "deliver_webhook": ("HTTP:503", "https://hooks.example.com/orders answered 503 Service Unavailable", 0.25),
    "send_email": ("SMTP:MAILBOX_FULL", "552 5.2.2 the mailbox is full", 0.02),
    "make_thumbnail": ("IMAGE:UNREADABLE", "cannot identify image file IMG_20391.heic", 0.03),
    "sync_crm": ("RATE_LIMIT:CRM", "429 Too Many Requests, retry after 12 s", 0.06),
}
PATHS = (
    *("/?window=24h", "/jobs", "/jobs/confirm?action=retry&type=charge_card", "/queues", "/queues/webhooks?window=24h"),
    *("/limits", "/tasks?window=24h", "/tasks/charge_card?window=24h", "/schedules", "/workers", "/errors", "/storage"),
)
QUEUES = {"charge_card": "payments", "deliver_webhook": "webhooks", "send_email": "mail", "make_thumbnail": "media"}


def enqueue(jobs: Rowcall, chance: random.Random) -> None:
    number = chance.randint(1000, 9999)
    task = chance.choices(list(ERRORS), [20, 12, 40, 15, 13])[0]
    arguments: dict[str, object] = {
        "charge_card": {"customer": number, "amount_cents": number * 3, "currency": "EUR"},
        "deliver_webhook": {"url": "https://hooks.example.com/orders", "event": "order.paid"},
        "send_email": {"to": f"customer{number}@example.com", "template": "order_confirmed"},
        "make_thumbnail": {"path": f"media/IMG_{number}.jpg", "size": 256},
        "sync_crm": {"customer": number},
    }[task]
    jobs.enqueue(task, arguments, queue=QUEUES.get(task, "default"), max_attempts=4, tags=["order"])


def work_a_day(path: Path) -> None:
    """Write a day of jobs, of which some failed."""
    chance, now = random.Random(4), datetime.now(UTC)
    clock = FakeClock(now - timedelta(hours=HOURS))
    with Rowcall(path, clock=clock, durability="normal") as jobs:
        queue = queue_of(jobs)
        while (left := (now - (clock.now() or now)).total_seconds()) > 90:
            hour = HOURS - left / 3600
            for _ in range(int(chance.gauss(6 + 5 * math.sin(hour / 3), 2) + (20 if 17 < hour < 17.5 else 1))):
                enqueue(jobs, chance)
            if not 11 < hour < 13:
                with closing(queue.database.connect()) as connection:
                    sample(queue, connection)
            clock.advance(chance.uniform(2, 15))
            for job in jobs.claim(chance.choice(["web-1:4711", "web-2:5120"]), limit=40):
                clock.advance(chance.expovariate(4))
                code, detail, share = ERRORS[job.type]
                if chance.random() < share * (3 if 20 < hour < 21 else 1):
                    jobs.fail(job, code, detail)
                else:
                    jobs.complete(job, {"ok": True})
            code = "0.1.0 5d41402a" if hour < 20 else "0.1.0 7d793037"
            queue.run(Write(partial(note_code, queue.dialect, code)))
            clock.advance(chance.uniform(40, 70))
    with Rowcall(path, clock=FakeClock(now), durability="normal") as jobs:
        for number in range(60):
            enqueue(jobs, chance)
            if number < 6:
                jobs.enqueue("refund", {"order": number}, queue="payments", limit=Limit("stripe", concurrency=2))
            jobs.enqueue("send_newsletter", {"page": number}, queue="mail", delay=600 + 60 * number)
        for job in jobs.claim("web-1:4711", limit=4):
            jobs.heartbeat(job)
        parts = [jobs.enqueue("export_orders", {"part": part}, delay=600 * part) for part in (1, 2, 3)]
        report = jobs.enqueue("build_report", {"month": "2026-01"}, after=parts, tags=["monthly"], key="report-2026-01")
        jobs.enqueue("send_email", {"to": "finance@example.com", "template": "report"}, queue="mail", after=[report])
        jobs.enqueue("archive_report", {"month": "2026-01"}, after=[report])
        jobs.add_schedule("nightly-report", "build_report", {"month": "all"}, cron="0 3 * * *", tz="Europe/Berlin")
        jobs.add_schedule("sync", "sync_crm", {"customer": 1}, every=300)
        jobs.pause("webhooks", actor="ann@web-1")


def take_all(browser: Browser, site: str, folder: Path, paths: Sequence[str]) -> None:
    """Take each page as a whole, in light, dark and on a phone."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        name = re.sub(r"\W+", "-", path.partition("?")[0]).strip("-") or "overview"
        for kind, width, dark in (("light", 1280, False), ("dark", 1280, True), ("phone", 360, False)):
            take(browser, f"{site}{path}", f"{name}-{kind}", 800, width=width, dark=dark, folder=folder, whole=True)


def take(
    browser: Browser,
    url: str,
    name: str,
    height: int,
    *,
    width: int = 1280,
    dark: bool = False,
    folder: Path = FOLDER,
    whole: bool = False,
    parts: str = "",
) -> None:
    """Take a picture of a page; with `parts`, only of the rectangle around the elements that this selector finds."""
    size: ViewportSize = {"width": width, "height": height}
    scheme: Literal["dark", "light"] = "dark" if dark else "light"
    fine = 2 if parts else 1  # a part is shown smaller than it is
    with closing(
        browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce", device_scale_factor=fine)
    ) as page:
        page.goto(url)
        clip = around(page.locator(parts)) if parts else None
        page.screenshot(path=folder / f"{name}.png", full_page=whole, clip=clip)
    print(folder / f"{name}.png")


def around(elements: Locator, margin: float = 12) -> FloatRect:
    """Return the rectangle around elements, with a margin."""
    boxes = [box for element in elements.all() if (box := element.bounding_box())]
    left, top = (min(box[edge] for box in boxes) - margin for edge in ("x", "y"))
    right = max(box["x"] + box["width"] for box in boxes) + margin
    bottom = max(box["y"] + box["height"] for box in boxes) + margin
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def main() -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("Chromium is missing; on Debian: apt-get install chromium")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listener:
        path = Path(folder, "shop.db")
        work_a_day(path)
        listener.bind(("127.0.0.1", 0))
        site = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Rowcall(path) as jobs, jobs.worker(concurrency=20, queues="exports"):
            jobs.task(name="refund", queue="payments", limit=Limit("stripe", concurrency=2))(lambda order: None)
            jobs.set_limit("stripe", concurrency=3, actor="ann@web-1")
            (failed,) = jobs.list(status="failed", type="charge_card", limit=1).jobs
            shown = settings(authorize=lambda request: Access("ann@example.com", "operate"))
            server = server_of(queue_of(jobs), shown, "127.0.0.1", 0)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            eventually(lambda: server.started)
            blocked = jobs.list(type="build_report").jobs[0]
            try:
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                    with closing(browser):
                        if sys.argv[1:2] == ["--all"]:
                            ids = [failed.id, blocked.id, *(job.id for job in jobs.list(status="running").jobs[:1])]
                            paths = [*PATHS, *(f"/jobs/{job_id}" for job_id in ids)]
                            take_all(browser, site, Path(sys.argv[2]), paths)
                            return
                        take(browser, f"{site}/?window=24h", "overview", 790)
                        take(browser, f"{site}/?window=24h", "overview-dark", 790, dark=True)
                        parts = ".figures, #activity"
                        take(browser, f"{site}/?window=24h", "activity", 900, width=1500, parts=parts)
                        take(browser, f"{site}/?window=24h", "activity-dark", 900, width=1500, dark=True, parts=parts)
                        take(browser, f"{site}/jobs", "jobs", 800)
                        take(browser, f"{site}/jobs/{failed.id}", "job", 900)
                        take(browser, f"{site}/jobs/{blocked.id}", "flow", 760)
                        take(browser, f"{site}/errors", "errors", 640)
                        take(browser, f"{site}/?window=24h", "phone", 780, width=360)
            finally:
                server.should_exit = True
                thread.join()


if __name__ == "__main__":
    main()
