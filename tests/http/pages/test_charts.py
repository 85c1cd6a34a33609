from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from rowcall import Activity, ActivityMark, Percentiles, Period
from rowcall.http.pages.charts import HEIGHT, activity_chart, sparkline, times_chart

AT, UNTIL = datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T04:00:00+00:00"


def test_bars_stay_in_the_picture() -> None:
    periods = [
        Period(
            at=AT + timedelta(minutes=number), arrived=None if number < 2 else number, succeeded=number * 7, failed=3
        )
        for number in range(60)
    ]
    tree = ElementTree.fromstring(
        f"<div>{activity_chart(Activity(span=60, periods=periods), '/jobs', type='send')}</div>"
    )
    bars = tree.findall(".//rect[@class='bar succeeded']") + tree.findall(".//rect[@class='bar failed']")
    assert len(bars) == 59 + 60
    assert all(0 <= float(bar.attrib["y"]) <= HEIGHT for bar in bars)
    assert [tick.text for tick in tree.findall(".//div[@class='ticks left']/span")] == ["500", "250", "0"]
    links = tree.findall(".//a")
    query = (
        "type=send&finished_after=2026-01-02T03%3A59%3A00%2B00%3A00&finished_before=2026-01-02T04%3A00%3A00%2B00%3A00"
    )
    assert (len(links), links[-1].attrib["href"]) == (60, f"/jobs?{query}")
    line = tree.find(".//polyline")
    assert line is not None
    assert len(line.attrib["points"].split()) == 57  # the last period is not over
    assert "59 arrived, 413 succeeded, 0 retried, 3 failed" in ElementTree.tostring(tree).decode()


def test_estimates_are_said_to_be_so() -> None:
    periods = [Period(at=AT, arrived=40_000), Period(at=AT + timedelta(minutes=1), arrived=2)]
    assert ": 40,000 arrived, " in activity_chart(Activity(span=60, periods=periods), "/jobs")
    assert ": about 40,000 arrived, " in activity_chart(
        Activity(span=60, periods=periods, arrivals_estimated=True), "/jobs"
    )


def test_pending_jobs_new_code_and_times_without_a_worker_are_drawn() -> None:
    counts = [1200, 900, None, None, None, None, None, 40, 30, 20]
    periods = [Period(at=AT + timedelta(minutes=at), arrived=1, pending=count) for at, count in enumerate(counts)]
    marks = [
        ActivityMark(at=AT + timedelta(minutes=2), until=AT + timedelta(minutes=7), kind="no worker"),
        ActivityMark(at=AT + timedelta(minutes=9), kind="no worker"),
        ActivityMark(at=AT + timedelta(minutes=7), kind="deploy", detail="0.1 <b>"),
    ]
    activity = Activity(span=60, periods=periods, marks=marks)
    tree = ElementTree.fromstring(f"<div>{activity_chart(activity, '/jobs')}</div>")
    pending = tree.findall(".//polyline[@class='line waiting']")
    assert [len(one.attrib["points"].split()) for one in pending] == [2, 2]
    assert [tick.text for tick in tree.findall(".//div[@class='ticks right']/span")] == ["1,200", "600", "0"]
    away = [(one.attrib["x"], one.attrib["width"]) for one in tree.findall(".//rect[@class='outage']")]
    assert away == [("192.0", "480.0"), ("864.0", "96.0")]
    assert [one.text for one in tree.findall(".//g[@class='deploy']/title")] == ["new code: 0.1 <b>"]
    assert "1 arrived, 0 succeeded, 0 retried, 0 failed, 900 pending" in ElementTree.tostring(tree).decode()


def test_times_are_drawn() -> None:
    times = [None, Percentiles(0.5, 2.0, 3.5), None]
    periods = [Period(at=AT + timedelta(minutes=at), arrived=0, run=run) for at, run in enumerate(times)]
    tree = ElementTree.fromstring(f"<div>{times_chart(Activity(span=60, periods=periods), 'run')}</div>")
    assert [one.attrib["class"] for one in tree.findall(".//polyline")] == ["line p50", "line p95", "line p99"]
    assert [tick.text for tick in tree.findall(".//div[@class='ticks left']/span")] == ["4 s", "2 s", "0"]
    titles = [one.text or "" for one in tree.findall(".//title")]
    assert [title.partition(": ")[2] for title in titles[:2]] == ["no attempt ended", "p50 500 ms, p95 2 s, p99 3.5 s"]


def test_nothing_can_be_drawn() -> None:
    ElementTree.fromstring(f"<div>{activity_chart(Activity(span=60, periods=[]), '/jobs')}</div>")
    assert sparkline([]).count("<rect") == 0
    assert sparkline([0, 3, 1]).count("<rect") == 2
