"""The example of an agent, as its README says: approve in a browser, watch the stream, kill the worker, continue."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from rowcall import Rowcall
from rowcall.testing import eventually
from tests.browser.conftest import window
from tests.docs.pages import ROOT
from tests.examples.site import PATIENCE_SECONDS, Example, Site

pytestmark = [pytest.mark.slow, pytest.mark.crash]


def test_a_killed_agent_continues_where_it_was(browser: Browser, tmp_path: Path) -> None:
    app = Example("agent_app", tmp_path / "agent_app", None, ROOT / "src")
    with (
        app.start("rowcall work") as worker,
        app.start("rowcall dashboard", "--port=0") as dashboard,
        app.start("python app.py") as asking,
        Site(dashboard) as site,
        Rowcall(app.database_url) as jobs,
    ):
        eventually(lambda: jobs.open_waits().waits, within=PATIENCE_SECONDS)
        with window(browser, str(site.client.base_url).rstrip("/")) as page:
            page.goto("/")
            page.get_by_role("link", name="Waiting for you").click()
            expect(page.locator(".prompt")).to_have_text('May the agent call refund with {"order":7,"euros":120}?')
            page.get_by_role("button", name="approve").click()
            expect(page.get_by_role("status")).to_contain_text("Sent approval refund-7 to job 1")
            page.goto("/jobs/1")
            expect(page.locator("#streams pre")).to_contain_text("parcel was")  # halfway through the answer
            worker.kill()
            asking.wait_for("parcel was", within=PATIENCE_SECONDS)
            expect(page.locator("#steps")).to_contain_text("support: refund")
            with app.start("rowcall work") as other:
                expect(page.locator("h1 .state")).to_have_text("succeeded")
                expect(page.locator("#streams pre")).to_contain_text("120 euros")
                expect(page.locator("#result")).to_contain_text("We have paid back 120 euros")
                asking.wait_for("succeeded", within=PATIENCE_SECONDS)
                assert "\n… I am sorry that your parcel was lost." in asking.output  # a new part, on a new line
                done = f"{worker.output}\n{other.output}"
    for line in ("looked up order 7", "tracked the parcel of order 7", "refunded 120 euros of order 7"):
        assert done.count(line) == 1
