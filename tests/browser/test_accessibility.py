"""axe-core finds nothing serious on any page, in light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import Shop, window

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
    *("/queues", "/schedules", "/workers", "/errors", "/storage"),
]
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
RUN = "axe.run({ resultTypes: ['violations'] })"


def serious(page: Page) -> list[str]:
    page.evaluate(AXE.read_text())
    found: list[dict[str, Any]] = page.evaluate(RUN)["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_pages_have_no_serious_findings(browser: Browser, site: str, shop: Shop, width: int, dark: bool) -> None:
    waiting = shop.jobs.list(status="blocked").jobs[0].id
    with window(browser, site, width=width, dark=dark) as page:
        for path in [*PAGES, f"/jobs/{waiting}"]:
            page.goto(path, wait_until="load")
            assert serious(page) == [], path
        page.locator("h1").evaluate("head => { head.innerHTML = '<img src=/static/favicon.svg>'; }")
        assert [one.partition(":")[0] for one in serious(page)] == ["image-alt"]  # axe looks, and says what it finds
