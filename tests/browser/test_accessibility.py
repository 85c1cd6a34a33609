"""axe-core finds nothing serious on any page, in light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, expect

from rowcall.http.pages.places import PLACES
from tests.browser.conftest import Shop, window
from tests.http.server import served

PAGES = [
    *(
        "/",
        "/?window=24h",
        "/jobs?limit=8",
        "/jobs?status=failed&queue=other",
        "/jobs/confirm?action=retry",
        "/jobs/1",
        "/nowhere",
    ),
    *(place.path for place in PLACES if place.path not in ("/", "/jobs")),
    *("/queues/payments", "/tasks/charge_card"),
]
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")


def serious(page: Page, options: str = "") -> list[str]:
    found: list[dict[str, Any]] = page.evaluate(f"axe.run({{ preload: false, {options} }})")["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.slow
def test_signing_in_has_no_serious_findings(browser: Browser, shop: Shop) -> None:
    with served(shop.jobs, token="a-secret-of-16-or-more") as found, window(browser, found.site) as page:
        page.goto("/jobs")
        for _ in range(2):
            page.evaluate(AXE.read_text())
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert serious(page) == [], page.url
            page.get_by_label("Token").fill("not the token")
            page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_have_no_serious_findings(browser: Browser, site: str, shop: Shop, width: int) -> None:
    waiting = shop.jobs.list(status="blocked").jobs[0].id
    with window(browser, site, width=width) as page:
        for path in [*PAGES, f"/jobs/{waiting}"]:
            page.goto(path, wait_until="load")
            page.evaluate(AXE.read_text())
            if width == 1280:
                assert serious(page) == [], path
            page.emulate_media(color_scheme="dark" if width == 1280 else "light")
            assert serious(page, "runOnly: ['color-contrast', 'scrollable-region-focusable']") == [], path
            page.emulate_media(color_scheme="light")
        page.locator("h1").evaluate("head => { head.innerHTML = '<img src=/static/favicon.svg>'; }")
        assert [one.partition(":")[0] for one in serious(page)] == ["image-alt"]  # axe looks, and says what it finds
