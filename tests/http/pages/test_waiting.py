from __future__ import annotations

from dataclasses import dataclass

import pytest

from rowcall import Access, Context, Rowcall
from tests.http.client import Client, client_of


@dataclass
class Review:
    approved: bool
    note: str = ""


@pytest.fixture
def asking(filled: Rowcall) -> Rowcall:
    """Jobs 4 to 7 wait, with choices, for a bool, for an object, and for a signal without a question."""

    @filled.task
    def refund(ctx: Context) -> object:
        return ctx.wait_for("approval", choices=["approve", "reject <it>"], prompt="Refund 120 € to <Ann>?")

    @filled.task
    def deploy(ctx: Context) -> object:
        return ctx.wait_for("go", bool, prompt="Deploy?")

    @filled.task
    def contract(ctx: Context) -> object:
        review: Review = ctx.wait_for("review", Review, prompt="Sign?")
        return review.note

    @filled.task
    def paid(ctx: Context) -> object:
        return ctx.wait_for("bank/paid")

    for task in (refund, deploy, contract, paid):
        task.enqueue()
    filled.drain()
    return filled


def test_questions_are_answered_on_the_page_that_lists_them(client: Client, asking: Rowcall) -> None:
    page = client.page("/waiting")
    assert page.count("data-row") == 4
    assert client.page("/waiting?asks=true").count("data-row") == 3
    assert 'Waiting for you</span><span class="count">3</span>' in page
    assert "Refund 120 € to &lt;Ann&gt;?" in page
    answer = {"json.value": '"reject <it>"', "position": "1"}
    assert client.submit("/waiting", "/jobs/4/signals/approval", answer).status_code == 303
    assert "Sent approval to job 4" in client.page("/waiting")
    late = client.submit("/waiting", "/jobs/4/signals/approval", answer)
    assert (late.status_code, "it was answered already" in late.text) == (409, True)
    client.submit("/waiting", "/jobs/5/signals/go", {"json.value": "false", "position": "1"})
    refused = client.submit("/waiting", "/jobs/6/signals/review", {"json.value": '{"approved": null}'})
    assert (refused.status_code, "Expected `bool`, got `null`" in refused.text) == (422, True)
    client.submit("/waiting", "/jobs/6/signals/review", {"json.value": '{"approved": true, "note": "fine"}'})
    assert "/jobs/7/signals/bank%2Fpaid" in client.page("/waiting")
    assert "Nothing waits for you" in client.page("/waiting?asks=true")
    asking.drain()
    assert [asking.get(job_id).result for job_id in (4, 5, 6)] == ["reject <it>", False, "fine"]


def test_other_waits_are_in_a_tab_and_on_the_page_of_the_job(client: Client, asking: Rowcall) -> None:
    other = client.page("/waiting?asks=false")
    assert ("/jobs/7/signals/bank%2Fpaid" in other, other.count("data-row")) == (True, 1)
    assert "/jobs/7/signals/bank%2Fpaid" in client.page("/jobs/7")
    client.submit("/jobs/7", "/jobs/7/signals/bank%2Fpaid", {"json.value": '{"cents": 5}', "position": "1"})
    page = client.page("/jobs/7")
    assert "Sent bank/paid to job 7" in page
    assert "/jobs/7/signals/" not in page
    asking.drain()
    assert asking.get(7).result == {"cents": 5}


def test_the_form_is_the_primary_action_of_a_job_that_asks(client: Client, asking: Rowcall) -> None:
    page = client.page("/jobs/4")
    assert page.count('class="button primary"') == 1
    assert '<button class="button primary" name="json.value" value="&#34;approve&#34;">approve</button>' in page
    assert "&#34;approved&#34;: null" in client.page("/jobs/6")


def test_readers_see_questions_and_cannot_answer(asking: Rowcall) -> None:
    with client_of(asking, authorize=lambda request: Access("ann")) as reader:
        for path in ("/waiting", "/jobs/4"):
            assert "You may read, but not answer." in reader.page(path)
            assert "/signals/" not in reader.page(path)


def test_an_answer_needs_the_token_of_the_form(client: Client, asking: Rowcall) -> None:
    client.page("/waiting")
    answer = client.send("POST", "/jobs/4/signals/approval", b"value=approve&csrf=wrong")
    assert answer.status_code == 403
    assert asking.open_waits().waits[0].job_id == 4
