from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from rowcall import Activity, Period
from rowcall.http.pages.charts import HEIGHT, activity_chart, sparkline

AT = datetime(2026, 1, 2, 3, tzinfo=UTC)


def test_bars_stay_in_the_picture() -> None:
    periods = [
        Period(
            at=AT + timedelta(minutes=number), arrived=None if number < 2 else number, succeeded=number * 7, failed=3
        )
        for number in range(60)
    ]
    tree = ElementTree.fromstring(f"<div>{activity_chart(Activity(span=60, periods=periods))}</div>")
    bars = tree.findall(".//rect[@class='bar succeeded']") + tree.findall(".//rect[@class='bar failed']")
    assert len(bars) == 59 + 60
    assert all(0 <= float(bar.attrib["y"]) <= HEIGHT for bar in bars)
    line = tree.find(".//polyline")
    assert line is not None
    assert len(line.attrib["points"].split()) == 57  # the last period is not over
    assert "59 arrived, 413 succeeded, 0 retried, 3 failed" in ElementTree.tostring(tree).decode()


def test_estimates_are_said_to_be_so() -> None:
    periods = [Period(at=AT, arrived=40_000), Period(at=AT + timedelta(minutes=1), arrived=2)]
    assert ": 40,000 arrived, " in activity_chart(Activity(span=60, periods=periods))
    assert ": about 40,000 arrived, " in activity_chart(Activity(span=60, periods=periods, arrivals_estimated=True))


def test_nothing_can_be_drawn() -> None:
    ElementTree.fromstring(f"<div>{activity_chart(Activity(span=60, periods=[]))}</div>")
    assert sparkline([]).count("<rect") == 0
    assert sparkline([0, 3, 1]).count("<rect") == 2
