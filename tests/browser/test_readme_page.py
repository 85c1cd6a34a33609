"""The README is short on the screen, too."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.github import BADGE, readme_page

pytestmark = pytest.mark.slow

SCREEN = 900
MOST_SCREENS = 1.5


def test_the_readme_is_a_screen_and_a_half_high(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "readme.html").write_text(readme_page(), encoding="utf-8")
    with closing(browser.new_page(viewport={"width": 1440, "height": SCREEN})) as page:
        page.route(re.compile("^https:"), lambda badge: badge.fulfill(body=BADGE, content_type="image/svg+xml"))
        page.goto((tmp_path / "readme.html").as_uri())
        loaded = page.eval_on_selector_all("img", "images => images.map((image) => image.naturalWidth > 0)")
        assert (set(loaded), len(loaded)) == ({True}, 5)
        box = page.locator("article").bounding_box()
        assert box is not None
        assert box["height"] <= MOST_SCREENS * SCREEN
