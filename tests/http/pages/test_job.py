from __future__ import annotations

import html
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from rowcall import Access, Context, Job, Rowcall, Status
from rowcall.http.pages.job import as_python, as_sql
from tests.http.client import Client, client_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_everything_about_a_job_is_shown(client: Client) -> None:
    page = client.page("/jobs/2")
    for text in (
        "Traceback",
        "a &lt; b &amp; c",
        "enqueued",
        "jobs.enqueue(&#39;broken&#39;",
        "INSERT INTO rowcall_job",
    ):
        assert text in page, text
    assert "it is due at" in client.page("/jobs/3")
    for missing in ("99", "0", str(10**23)):
        assert client.get(f"/jobs/{missing}").status_code == 404


def test_a_chain_and_its_blockers_are_shown(client: Client, filled: Rowcall) -> None:
    one = filled.enqueue("greet", {"name": "Ann"})
    two = filled.enqueue("greet", {"name": "Bob"}, after=[one])
    page = client.page(f"/jobs/{two.id}")
    assert f'href="/jobs/{one.id}"' in page
    assert f">greet {one.id}</text>" in page
    assert f'href="/jobs/{two.id}"' in client.page(f"/jobs/{one.id}")


@pytest.mark.parametrize("context", [f"00-{TRACE}-00f067aa0ba902b7-01 vendor=x", "nonsense", f"00-{TRACE}<"])
def test_a_trace_is_linked(filled: Rowcall, tmp_path: Path, context: str) -> None:
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection, connection:
        connection.execute("update rowcall_job set trace_context = ? where id = 1", (context,))
    with client_of(filled, trace_url="https://traces.example.com/{trace_id}?job={job_id}") as client:
        is_known = context.startswith("00-") and "vendor" in context
        assert (f'href="https://traces.example.com/{TRACE}?job=1"' in client.page("/jobs/1")) is is_known
        assert client.get("/api/jobs/1").json()["trace_id"] == (TRACE if is_known else None)
        assert "traces.example.com" not in client.page("/jobs/2")


def test_durable_steps_are_shown(tmp_path: Path) -> None:
    with (
        Rowcall(tmp_path / "app.db", scrub=lambda text: text.replace("4242", "<card>")) as jobs,
        client_of(jobs) as client,
    ):

        @jobs.task
        def order(ctx: Context) -> None:
            ctx.log.info("charging 4242")
            for token in ("pay", "ing <with> ", "4242"):
                ctx.stream(token)
            ctx.stream({"card": "4242"}, name="facts")
            ctx.step("charge", lambda: {"card": "4242"})
            ctx.wait_for("paid")

        order.enqueue()
        jobs.drain()
        page = client.page("/jobs/1")
        assert "paying &lt;with&gt; <card>" not in page
        assert (
            'data-stream="/api/jobs/1/streams/out?after=1-1-3" data-text>paying &lt;with&gt; &lt;card&gt;</pre>' in page
        )
        assert '?after=1-1-4">{&#34;card&#34;:&#34;&lt;card&gt;&#34;}</pre>' in page
        assert "charging &lt;card&gt;" in page
        assert "{&#34;card&#34;:&#34;&lt;card&gt;&#34;}" in page
        assert re.search(r"wait</span> paid.*?<td>waiting", page, re.DOTALL)
        assert "when signalled" in page
        assert "9999-12-31 " not in page  # the last day is not a date
        bars = re.findall(r'class="what" title="([^"]+)".*?<rect class="(\w+)"', page, re.DOTALL)
        assert bars == [("handler", "ran"), ("charge", "ran"), ("wait paid", "waits")]
        assert page.count('<rect class="now"') == 1
        steps = client.get("/api/jobs/1").json()["steps"]
        assert [(one["name"], one["status"], one["result"]) for one in steps] == [
            ("charge", "finished", {"card": "<card>"}),
            ("paid", "waiting", None),
        ]
        assert "<option>charge</option><option>paid</option>" in page
        assert client.submit("/jobs/1", "/jobs/1/retry", {"from_step": "paid"}).status_code == 303
        assert [step.name for step in jobs.steps(1)] == ["charge"]
        assert client.post("/api/jobs/1/retry", {"from_step": "paid"}).status_code == 422
        answer = client.post("/api/jobs/1/retry", {"from_step": "charge"})
        assert (answer.json()["job"]["status"], jobs.steps(1)) == ("pending", [])


def test_hidden_arguments_are_not_put_into_a_form(tmp_path: Path) -> None:
    with (
        Rowcall(tmp_path / "app.db", scrub=lambda text: text.replace("4242", "****")) as jobs,
        client_of(jobs) as client,
    ):
        jobs.enqueue("charge", {"card": "4242"}, delay=60)
        jobs.enqueue("charge", {"customer": 7}, delay=60)
        jobs.enqueue("charge", {"text": "x" * 30_000}, delay=60)
        forms = [
            re.findall(r"<textarea[^>]*>(.*?)</textarea>", client.page(f"/jobs/{n}"), re.DOTALL) for n in (1, 2, 3)
        ]
    assert [html.unescape(*form) for form in forms] == ["", '{\n  "customer": 7\n}', ""]


def test_a_failed_job_shows_only_the_attempts_that_it_had(client: Client, filled: Rowcall) -> None:
    heading = '<h2>Attempts</h2><span class="dim">{}</span>'
    for job_id, shown in ((1, "1 of 5"), (2, "1"), (3, "0 of 5")):
        assert heading.format(shown) in client.page(f"/jobs/{job_id}")
    assert '<td class="n wide-only">1</td>' in client.page("/jobs?status=failed")


def test_a_long_history_is_shortened(client: Client, filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/api/jobs/2").json()["shortened"] is False
    filled.retry(2)
    filled.drain()
    monkeypatch.setattr("rowcall.http.api.jobs.MOST_ROWS", 1)
    found = client.get("/api/jobs/2").json()
    assert [one["attempt"] for one in found["attempts"]] == [2]
    assert [one["event"] for one in found["timeline"]] == ["FAILED"]
    assert found["shortened"] is True
    assert "<code>rowcall show 2</code> prints all" in client.page("/jobs/2")


def test_the_stack_is_for_running_jobs_and_for_visitors_who_may_write(client: Client, filled: Rowcall) -> None:
    filled.enqueue("greet", {"name": "Eve"}, queue="by-hand")
    (running,) = filled.claim("by-hand:1", limit=1, queues=["by-hand"])
    assert f'href="/jobs/{running.id}/stack"' in client.page(f"/jobs/{running.id}")
    assert "/stack" not in client.page("/jobs/1")
    assert [client.get(f"/jobs/{job_id}/stack").status_code for job_id in (1, running.id, 99)] == [409, 409, 404]
    with client_of(filled, authorize=lambda request: Access("ann", "read")) as reader:
        assert reader.get(f"/jobs/{running.id}/stack").status_code == 403


def test_buttons_change_the_job(client: Client, filled: Rowcall) -> None:
    assert client.submit("/jobs/2", "/jobs/2/retry").headers["location"] == "/jobs/2"
    assert "Job 2 is pending" in client.page("/jobs/2")
    client.submit("/jobs/3", "/jobs/3/edit", {"json.arguments": '{"name": "Eve"}'})
    client.submit("/jobs/3", "/jobs/3/priority", {"priority": "5"})
    job = filled.get(3)
    assert (job.payload, job.priority) == ({"name": "Eve"}, 5)
    client.submit("/jobs/3", "/jobs/3/complete", {"json.result": '"hello"'})
    assert filled.get(3).result == "hello"
    client.submit("/jobs/3", "/jobs/3/delete", {"return_to": "/jobs"})
    assert client.get("/jobs/3").status_code == 404


def test_a_job_that_has_succeeded_runs_again_only_after_a_question(client: Client, filled: Rowcall) -> None:
    retry = '<button class="button{}">Retry</button>'
    assert retry.format(" primary") in client.page("/jobs/2")
    assert retry.format(" ") in client.page("/jobs/1")
    asked = client.submit("/jobs/1", "/jobs/1/retry")
    assert filled.get(1).status == "succeeded"
    question = asked.headers["location"]
    page = client.page(question)
    assert "Retry 1 job?" in page
    assert "Job 1 has succeeded. It runs again, and its result is deleted." in html.unescape(page)
    assert 'href="/jobs/1">Back' in page
    client.submit(question, "/jobs/retry", {"ids": ["1"], "return_to": "/jobs/1"})
    assert (filled.get(1).status, filled.get(1).result) == ("pending", None)


def test_the_same_job_can_be_enqueued_again(filled: Rowcall, tmp_path: Path) -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    job = Job(id=1, type="o'neil", queue="mail", payload={"a": "it's"}, status=Status.PENDING, run_at=at, created_at=at)
    again = eval(as_python(job), {"jobs": filled})
    assert (again.type, again.payload, again.queue) == ("o'neil", {"a": "it's"}, "mail")
    assert as_sql(job, "rowcall_") == (
        "INSERT INTO rowcall_job (type, queue, payload, priority)"
        """ VALUES ('o''neil', 'mail', '{"a":"it''s"}', 0);"""
    )
    tagged = as_sql(msgspec.structs.replace(job, tags=("a'b", "c")), "rowcall_")
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection, connection:
        connection.execute(tagged)
    assert filled.list(tag="a'b").jobs[0].tags == ("a'b", "c")
