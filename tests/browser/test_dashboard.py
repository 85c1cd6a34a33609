"""The dashboard in a real browser, as someone on call uses it."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from rowcall.http.pages.places import PLACES
from tests.browser.conftest import Shop, window
from tests.http.server import served

PAGES = [*(place.path for place in PLACES), "/jobs/1", "/queues/payments", "/tasks/charge_card"]

QUEUES = ["default", "imports-of-the-whole-night", "mail", "payments", "slow", "webhooks"]

HIDDEN = """[...document.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1)
    .map((one) => one.innerText.slice(0, 80))"""
"""Tables that are wider than their place: a part of them cannot be seen without scrolling."""
BROKEN = """(() => {
    const found = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        if (texts.currentNode.parentElement.closest("pre, textarea, svg, .hidden")) continue;
        for (const word of texts.currentNode.data.matchAll(/[^\\s/:-]+/g)) {
            if (word[0].length > 24) continue;
            const range = document.createRange();
            range.setStart(texts.currentNode, word.index);
            range.setEnd(texts.currentNode, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map((one) => Math.round(one.top))).size > 1) found.push(word[0]);
        }
    }
    return found;
})()"""
"""Words that are broken over two lines."""
PALEST = """["failed", "succeeded", "pending", "running", "scheduled", "blocked"].map((name) => {
    const drawn = document.createElement("canvas").getContext("2d");
    drawn.fillStyle = getComputedStyle(document.querySelector(`.tile.${name} .state`)).color;
    drawn.fillRect(0, 0, 1, 1);
    const [red, green, blue] = drawn.getImageData(0, 0, 1, 1).data;
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
})"""
"""How light the states are, with failed first."""

pytestmark = pytest.mark.slow


def test_filters_are_links(page: Page) -> None:
    page.goto("/jobs")
    assert page.locator("#known-queue option").evaluate_all("all => all.map((one) => one.value)") == QUEUES
    page.get_by_role("group", name="State").get_by_role("link", name="failed 5").click()
    expect(page.locator("[data-row]")).to_have_count(5)
    page.get_by_placeholder("Search arguments").fill('{"customer": 3}')
    page.keyboard.press("Enter")
    expect(page.locator("[data-row]")).to_have_count(1)
    assert "status=failed" in page.url
    page.reload()
    expect(page.locator("[data-row] .name a").first).to_have_text("charge_card")
    page.get_by_role("link", name="Clear").click()
    page.get_by_placeholder("Tag").fill("monthly")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-row] .state")).to_have_text("scheduled")


def test_a_job_is_opened(page: Page) -> None:
    page.goto("/jobs?status=failed&order=oldest")
    page.get_by_role("link", name="charge_card").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("charge_card")
    expect(page.locator(".traceback")).to_contain_text("the card of customer 0 was declined")
    expect(page).to_have_title("(5) Job 1 · charge_card · Rowcall")
    exact = page.locator("time").first.get_attribute("title")
    assert exact is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC", exact)
    page.get_by_role("button", name="UTC").click()
    expect(page.locator("time").first).to_have_text(exact[11:19])
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="local")).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(page.locator("time").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    page.get_by_role("button", name="ago").click()
    expect(page.locator("time").first).to_contain_text("ago")


def test_progress_is_live_and_nothing_moves(page: Page, shop: Shop) -> None:
    job = shop.jobs.enqueue("report", {"month": "2026-04"}, priority=9)
    with shop.jobs.worker(queues="default"):
        assert shop.halfway.wait(20)
        page.goto(f"/jobs/{job.id}")
        expect(page.locator("#progress")).to_contain_text("25% reading orders")
        page.get_by_role("link", name="Stack").click()
        expect(page.locator(".traceback")).to_contain_text("in report")
        page.get_by_role("link", name="Back to the job").click()
        page.evaluate("""() => {
            window.moved = 0;
            new PerformanceObserver((list) => { for (const one of list.getEntries()) window.moved += one.value; })
                .observe({ type: "layout-shift" });
        }""")
        shop.resume.set()
        expect(page.locator("h1 .state")).to_have_text("succeeded")
        expect(page.locator("#result")).to_contain_text("2026-04")
    assert page.evaluate("window.moved") < 0.01


def test_all_that_match_are_retried(page: Page, shop: Shop) -> None:
    page.goto("/errors")
    page.get_by_role("link", name="Retry all").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 5 jobs?")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("status")).to_contain_text("5 jobs")
    assert shop.jobs.stats().by_status["failed"] == 0
    assert shop.jobs.list(status="pending", type="charge_card").jobs[0].attempt == 1


def test_selected_jobs_are_deleted(page: Page, shop: Shop) -> None:
    page.goto("/jobs?status=failed")
    expect(page.get_by_role("button", name="Delete")).to_be_hidden()
    page.get_by_label("Select job 1", exact=True).check()
    page.get_by_label("Select job 2", exact=True).check()
    expect(page.locator("#selected")).to_have_text("2 selected")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Delete 2 jobs?")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("[data-row]")).to_have_count(3)
    assert shop.jobs.stats().by_status["failed"] == 3


def test_a_queue_is_paused_and_resumed(page: Page, shop: Shop) -> None:
    page.goto("/queues")
    row = page.get_by_role("row", name="payments")
    expect(page.locator("tr.rest").last).to_contain_text("queue slow was paused by ann")
    row.get_by_role("button", name="Pause").click()
    expect(row.locator(".badge")).to_contain_text("paused")
    assert "payments" in [one.name for one in shop.jobs.paused()]
    row.get_by_role("button", name="Resume").click()
    expect(row.locator(".badge")).to_have_count(0)
    ask, every = page.locator("#ask"), page.get_by_role("button", name="Pause every queue")
    every.click()
    expect(ask).to_contain_text("Start no more jobs of any queue?")
    ask.get_by_role("button", name="Back").click()
    expect(ask).to_be_hidden()
    assert [one.name for one in shop.jobs.paused()] == ["slow"]
    every.click()
    ask.get_by_role("button", name="Pause every queue").click()
    expect(page.get_by_role("status")).to_contain_text("Paused every queue")
    assert [one.name for one in shop.jobs.paused()] == ["*", "slow"]


def test_markup_in_jobs_is_text(page: Page, shop: Shop) -> None:
    """The browser runs none of it: it would open a dialog, or complain about the policy, which fails the test."""
    script = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    job = shop.jobs.enqueue(script, {script: script}, queue=script, tags=[script], key=script)
    shop.jobs.fail(shop.jobs.claim(script, queues=[script])[0], "A:B", script)
    shop.jobs.pause(script, actor=script)
    for path in ("/", f"/jobs?tag={quote(script)}", f"/jobs/{job.id}", "/queues", "/errors"):
        page.goto(path)
        expect(page.get_by_text("<script>alert(1)").first).to_be_attached()
    assert dialogs == []


def test_keys(page: Page) -> None:
    page.goto("/jobs?status=succeeded")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("[data-row]").first).to_have_class("at")
    page.keyboard.press("x")
    expect(page.locator("#selected")).to_have_text("1 selected")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/jobs/\d+$"))
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page).to_have_url(re.compile("/queues$"))


def test_rows_do_not_move_under_the_pointer(page: Page, shop: Shop) -> None:
    page.goto("/jobs?status=scheduled")
    rows = page.locator("[data-row]")
    page.keyboard.press("j")
    rows.first.hover()
    with page.expect_response("**/jobs?status=scheduled"):
        shop.jobs.enqueue("send_email", {"to": "next@example.com"}, delay=60)
    expect(rows).to_have_count(2)
    page.mouse.move(0, 0)
    shop.jobs.enqueue("send_email", {"to": "last@example.com"}, delay=60)
    expect(rows).to_have_count(4)
    expect(rows.nth(2)).to_have_class("at")


def test_failures_show_in_the_title_and_next_to_errors(page: Page, shop: Shop) -> None:
    page.goto("/queues")
    expect(page).to_have_title("(5) Queues · Rowcall")
    shop.charge_card.enqueue(7)
    shop.jobs.drain(queues=["payments"])
    expect(page).to_have_title("(6) Queues · Rowcall")
    expect(page.get_by_role("link", name="Errors 6")).to_be_visible()
    assert page.locator("link[rel=icon]").get_attribute("href") == "/static/favicon-failed.svg"


def test_the_overview_begins_with_what_needs_attention(page: Page, shop: Shop) -> None:
    page.goto("/")
    expect(page.locator("#attention .health")).to_contain_text("Not well: 1 critical problem. No worker is alive")
    strip = page.locator("#attention > ul > li")
    expect(strip).to_have_count(1)
    expect(strip).to_contain_text("task charge_card fails: all of 5 attempts in the last 1 h")
    expect(strip.locator(".advice code").first).to_have_text("rowcall errors app:jobs --type charge_card")
    strip.get_by_role("link").click()
    expect(page.locator("[data-row]")).to_have_count(5)
    shop.jobs.clear()
    page.goto("/")
    expect(page.locator("#attention")).to_have_text(re.compile("All is well. No worker is alive, no job runs"))


def test_a_bar_says_its_numbers_and_leads_to_its_jobs(page: Page) -> None:
    page.goto("/tasks/charge_card")
    bar = page.locator("#activity .period:has(.failed)")
    bar.hover()
    expect(page.locator("#activity .tip")).to_contain_text(re.compile("UTC: .*0 succeeded, 0 retried, 5 failed"))
    bar.click()
    expect(page.locator("[data-row]")).to_have_count(5)
    assert "type=charge_card" in page.url


def test_heads_stay_in_view(page: Page) -> None:
    page.goto("/jobs")
    page.mouse.move(700, 500)
    page.mouse.wheel(0, 900)
    expect(page.get_by_role("columnheader", name="State")).to_be_in_viewport()


@pytest.mark.parametrize("width", [360, 1280, 2560])
def test_pages_fit_the_screen(browser: Browser, site: str, width: int) -> None:
    with window(browser, site, width=width) as page:
        for path in PAGES:
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") == width, path
            assert page.evaluate(HIDDEN) == [], path
            if width == 360:
                assert page.evaluate(BROKEN) == [], path
            expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
        if width == 360:
            page.get_by_role("button", name="Pages").click()
            assert page.evaluate("document.documentElement.scrollWidth") == width
            page.get_by_role("link", name="Queues").click()
            expect(page.get_by_role("heading", level=1)).to_contain_text("Queues")


def test_light_and_dark(browser: Browser, site: str) -> None:
    colours = []
    for dark in (False, True):
        with window(browser, site, dark=dark) as page:
            page.goto("/")
            colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            failed, *others = page.evaluate(PALEST)
            assert failed < max(others)
    light, dark_one = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert light > 700
    assert dark_one < 100


def test_without_scripts_everything_can_be_read_and_done(browser: Browser, site: str, shop: Shop) -> None:
    with window(browser, site, scripts=False) as page:
        for path in PAGES:
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.goto("/jobs?status=failed")
        page.get_by_placeholder("Task").fill("charge_card")
        page.get_by_role("button", name="Filter").click()
        page.get_by_label("Select job 1", exact=True).check()
        page.get_by_role("button", name="Retry").click()
        page.get_by_role("button", name="Retry").click()
        expect(page.get_by_role("status")).to_contain_text("1 job")
    assert shop.jobs.get(1).status == "pending"


def test_signing_out_ends_the_session_everywhere(browser: Browser, shop: Shop) -> None:
    """A second window has a copy of the cookies. Another site cannot sign anyone out."""
    token = "a-secret-of-16-or-more"
    with served(shop.jobs, token=token) as found, window(browser, found.site) as page:
        page.goto("/jobs?status=failed")
        for given in ("a-wrong-token", token):
            page.get_by_label("Token").fill(given)
            page.get_by_role("button", name="Sign in").click()
        expect(page.locator("[data-row]")).to_have_count(5)
        with window(browser, found.site) as copy:
            copy.context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
            copy.goto("/queues")
            expect(copy.get_by_role("heading", level=1)).to_have_text("Queues")
            elsewhere = (
                f"data:text/html,<form method=post action='{found.site}/logout'><button>Win a prize</button></form>"
            )
            visitor = page.context.new_page()
            visitor.goto(elsewhere)
            with visitor.expect_navigation():
                visitor.get_by_role("button").click()
            expect(visitor.get_by_role("heading", level=1)).to_have_text("Forbidden")
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_label("Token")).to_be_visible()
            copy.reload()
            expect(copy.get_by_label("Token")).to_be_visible()


@pytest.mark.parametrize("width", [360, 1280])
def test_the_picture_of_a_chain_fits(browser: Browser, site: str, shop: Shop, width: int) -> None:
    chain = shop.jobs.start_chain([shop.send_email.bind(f"{number}@example.com") for number in range(5)])
    shop.jobs.enqueue("archive", {"year": 2026}, after=[chain])
    with window(browser, site, width=width) as page:
        page.goto(f"/jobs/{chain.steps[2].id}")
        expect(page.locator(".graph .node")).to_have_count(6)
        room = page.locator(".flow").bounding_box()
        assert room is not None
        for box in page.locator(".graph .node rect").all():
            place = box.bounding_box()
            assert place is not None
            assert room["x"] < place["x"]
            assert place["x"] + place["width"] < room["x"] + room["width"]
            assert place["y"] + place["height"] < room["y"] + room["height"]
