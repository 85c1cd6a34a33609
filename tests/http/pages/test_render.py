from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rowcall.http.pages import render
from rowcall.http.pages.render import LONGEST_SHOWN, coloured_json, pretty_json, shortened, time_element

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_time_is_relative_and_exact() -> None:
    said = time_element(NOW - timedelta(minutes=5), NOW)
    assert said == ('<time datetime="2026-01-02T02:59:05+00:00" title="2026-01-02 02:59:05.000 UTC">5 min ago</time>')
    assert "–" in time_element(None, NOW)


def test_json_is_readable_and_not_endless() -> None:
    assert pretty_json({"a": [1, None]}) == '{\n  "a": [\n    1,\n    null\n  ]\n}'
    assert len(pretty_json("x" * 1_000_000)) < LONGEST_SHOWN + 100
    assert shortened("abc", 2) == "ab… (3 characters)"


@pytest.mark.parametrize("text", ['"', "\\", ':"', "\n"])
def test_colouring_a_shortened_text_takes_one_pass(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that starts again at each quote takes hours for this many."""
    monkeypatch.setattr(render, "LONGEST_SHOWN", 1_000_000)
    assert coloured_json({"name": text * 1_000_000}).count('class="key"') == 1
