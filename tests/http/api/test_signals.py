from __future__ import annotations

import pytest

from rowcall import Access, Context, Rowcall
from tests.http.client import Client, client_of

QUESTION = {"prompt": "Refund 120 €?", "choices": ["approve", "reject"]}


@pytest.fixture
def asking(filled: Rowcall) -> Rowcall:
    """Job 4 waits for an approval, and then for a signal whose name has a slash."""

    @filled.task
    def refund(ctx: Context) -> list[object]:
        approval = ctx.wait_for("approval", choices=["approve", "reject"], prompt="Refund 120 €?")
        return [approval, ctx.wait_for("bank/paid")]

    refund.enqueue()
    filled.drain()
    return filled


def test_an_answer_is_sent_and_the_timeline_has_who_sent_it(client: Client, asking: Rowcall) -> None:
    assert client.get("/api/jobs/4").json()["steps"][0]["question"] == QUESTION
    path = "/api/jobs/4/signals/approval"
    refused = client.post(path, {"value": "maybe"})
    assert refused.status_code == 422
    assert "must be 'approve' or 'reject', got 'maybe'" in refused.json()["detail"]
    answer = client.post(path, {"value": "approve", "position": 1}).json()
    assert (answer["name"], answer["job"]["id"]) == ("approval", 4)
    late = client.post(path, {"value": "reject", "position": 1})
    assert late.status_code == 409
    assert "it was answered already" in late.json()["detail"]
    asking.drain()
    event = {"value": {"cents": [12000]}, "key": "evt_1"}
    assert [client.post("/api/jobs/4/signals/bank/paid", event).status_code for _ in range(2)] == [200, 200]
    asking.drain()
    assert asking.get(4).result == ["approve", {"cents": [12000]}]
    answered = [event for event in asking.timeline(4) if event.event == "SIGNALLED"]
    assert [event.detail for event in answered] == ["approval", "bank/paid"]
    assert all(event.actor for event in answered)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/jobs/1/signals/approval", {"value": 1}, 409),
        ("/api/jobs/99/signals/approval", {"value": 1}, 404),
        ("/api/jobs/4/signals/approval", {"value": "approve", "position": 0}, 422),
        ("/api/jobs/4/signals/approval", {"value": "approve", "answer": 1}, 422),
        ("/api/jobs/4/signals/approval", {"value": "approve", "key": ""}, 422),
        ("/api/jobs/4/signals/" + "x" * 201, {}, 422),
    ],
)
def test_wrong_signals_are_refused(client: Client, asking: Rowcall, path: str, body: object, status: int) -> None:
    assert client.post(path, body).status_code == status
    assert "SIGNALLED" not in [event.event for event in asking.timeline(4)]


def test_the_role_decides_who_may_answer(asking: Rowcall) -> None:
    access = Access("ann")
    with client_of(asking, authorize=lambda request: access) as reader:
        assert reader.post("/api/jobs/4/signals/approval", {"value": "approve"}).status_code == 403
        access = Access("ann", "operate")
        assert reader.post("/api/jobs/4/signals/approval", {"value": "approve"}).status_code == 200
    assert [event.actor for event in asking.timeline(4) if event.event == "SIGNALLED"] == ["ann"]
