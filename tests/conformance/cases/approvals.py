"""Waits that ask: prompts and choices are stored with them, and a signal that does not fit is refused at its sender."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import pytest

from rowcall import Context, Encryption, InvalidArguments, InvalidOption, Rowcall, WrongState
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store
from tests.http.client import client_of

KEYS = Encryption(keys=["k" * 43])

CHOICES = ["approve", "reject"]
QUESTION = {"prompt": "Refund 120 €?", "choices": CHOICES}


class When(StrEnum):
    NOW = "now"
    LATER = "later"


@dataclass
class Approval:
    approved: bool
    note: str | None = None


class TestApprovals:
    def test_a_wait_with_choices_takes_one_of_them(self, jobs: Rowcall) -> None:
        @jobs.task
        async def on_the_loop(ctx: Context) -> object:
            return await ctx.wait_for("approval", choices=CHOICES, prompt="Refund 120 €?")

        @jobs.task
        def in_a_thread(ctx: Context) -> object:
            return ctx.wait_for("approval", choices=CHOICES, prompt="Refund 120 €?")

        for job in (on_the_loop.enqueue(), in_a_thread.enqueue()):
            jobs.drain()
            assert [step.question for step in jobs.steps(job)] == [QUESTION]
            with pytest.raises(InvalidArguments, match="signal 'approval' must be 'approve' or 'reject', got 'maybe'"):
                jobs.signal(job, "approval", "maybe")
            jobs.signal(job, "approval", "approve", actor="ann")
            jobs.drain()
            assert jobs.get(job).result == "approve"
            assert [(step.result, step.question) for step in jobs.steps(job)] == [("approve", QUESTION)]
            told = [(event.actor, event.detail) for event in jobs.timeline(job) if event.event == "SIGNALLED"]
            assert told == [("ann", "approval")]

    def test_choices_that_are_scrubbed_can_be_answered_as_they_are_shown(self, store: Store) -> None:
        with Rowcall(store.url, scrub=lambda text: re.sub(r"\d{4}", "****", text), encrypt=KEYS) as jobs:

            @jobs.task
            def refund(ctx: Context) -> list[object]:
                cards = ["card 4242", "card 4111", "none"]
                return [ctx.wait_for(name, choices=cards) for name in ("refund 1234", "again")]

            job = refund.enqueue()
            jobs.drain()
            with client_of(jobs) as client:
                (wait,) = client.get(f"/api/jobs/{job.id}").json()["waits"]
                assert (wait["name"], wait["question"]["choices"]) == (
                    "refund ****",
                    ["card ****", "card **** (2)", "none"],
                )
                path = f"/api/jobs/{job.id}/signals/refund ****"
                refused = client.post(path, {"value": "card", "position": 1})
                assert (refused.status_code, "must be 'card ****' or" in refused.text) == (422, True)
                assert ("4242" in refused.text, "1234" in refused.text) == (False, False)
                for choice in wait["question"]["choices"][1:]:
                    assert client.post(path, {"value": choice}).status_code == 200
                    jobs.drain()
                    path = f"/api/jobs/{job.id}/signals/again"
            assert jobs.get(job).result == ["card 4111", "none"]
            with pytest.raises(InvalidOption, match=r"got 'x'; it has 'refund \*\*\*\*', 'again'"):
                jobs.retry(job, from_step="x")
            jobs.retry(job, from_step="refund ****")
            jobs.drain()
            assert [wait.name for wait in jobs.open_waits().waits] == ["refund 1234"]

    def test_a_typed_wait_refuses_other_values_at_their_sender(self, jobs: Rowcall) -> None:
        @jobs.task
        def refund(ctx: Context) -> list[object]:
            first: Approval = ctx.wait_for("approval", Approval)
            second: When = ctx.wait_for("approval", When)
            return [first.approved, second]

        job = refund.enqueue()
        jobs.drain()
        with pytest.raises(InvalidArguments, match=r"Expected `bool`, got `str` - at `\$.approved`"):
            jobs.signal(job, "approval", {"approved": "yes"})
        jobs.signal(job, "approval", Approval(True))
        jobs.signal(job, "approval", "never")  # it is for a wait that has not begun
        jobs.drain()
        found = jobs.get(job)
        assert (found.status, found.error_code) == ("failed", "INVALID_INPUT:SIGNAL")

    def test_a_signal_that_was_sent_before_is_refused_where_it_is_received(self, jobs: Rowcall) -> None:
        @jobs.task
        def refund(ctx: Context) -> object:
            try:
                return ctx.wait_for("approval", choices=CHOICES)
            except InvalidArguments:
                return ctx.wait_for("approval", choices=CHOICES, prompt="Again: approve or reject?")

        job = refund.enqueue()
        jobs.signal(job, "approval", "maybe")
        jobs.drain()
        assert [step.status for step in jobs.steps(job)] == ["finished", "waiting"]
        jobs.signal(job, "approval", "reject", position=2)
        jobs.drain()
        assert jobs.get(job).result == "reject"

    def test_of_two_answers_to_one_question_the_second_is_refused(self, jobs: Rowcall) -> None:
        @jobs.task
        def refund(ctx: Context) -> list[object]:
            return [ctx.wait_for("approval", choices=CHOICES), ctx.wait_for("approval", choices=CHOICES)]

        job = refund.enqueue()
        jobs.drain()
        jobs.signal(job, "approval", "approve", position=1)
        with pytest.raises(WrongState, match="step 1 does not wait for 'approval', or it was answered already"):
            jobs.signal(job, "approval", "reject", position=1)  # no worker has received the first one
        jobs.drain()
        for position in (1, 3):
            with pytest.raises(WrongState, match="it was answered already"):
                jobs.signal(job, "approval", "reject", position=position)
        jobs.signal(job, "approval", "reject", position=2)
        jobs.drain()
        assert jobs.get(job).result == ["approve", "reject"]

    def test_open_waits_are_listed_the_longest_first(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def refund(ctx: Context) -> None:
            ctx.wait_for("approval", Approval, prompt="Refund?", timeout=60)

        @jobs.task
        def paid(ctx: Context) -> None:
            ctx.wait_for("paid", Approval)

        made, other = [], paid.enqueue()
        for _ in range(5):
            made.append(refund.enqueue())
            jobs.drain()
            clock.advance(1)
        assert [wait.job_id for wait in jobs.open_waits(asks=True).waits] == [job.id for job in made]
        page = jobs.open_waits(limit=3)
        rest = jobs.open_waits(limit=3, cursor=page.next_cursor)
        assert [wait.job_id for wait in [*page.waits, *rest.waits]] == [other.id, *[job.id for job in made]]
        assert rest.next_cursor is None
        first = page.waits[1]
        assert (first.type, first.position, first.name, first.question) == (
            "refund",
            1,
            "approval",
            {"prompt": "Refund?"},
        )
        assert first.expects is not None
        assert (first.due_at, jobs.get(made[0]).run_at) == (jobs.steps(made[0])[0].due_at, first.due_at)
        assert [wait.job_id for wait in jobs.open_waits(asks=False).waits] == [other.id]
        jobs.signal(made[0], "approval", {"approved": True})  # answered, though no worker has received it
        jobs.cancel(made[1])
        assert [wait.job_id for wait in jobs.open_waits(asks=True).waits] == [job.id for job in made[2:]]
        clock.advance(60)
        assert [wait.job_id for wait in jobs.open_waits().waits] == [other.id]  # the others have timed out
        with pytest.raises(InvalidOption, match="asks"):
            jobs.open_waits(asks="no")  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="must be the next_cursor of a page, got 'x'"):
            jobs.open_waits(cursor="x")

    @pytest.mark.parametrize(
        ("asked", "problem"),
        [
            ({"choices": []}, "choices must have 1 to 50 entries, got 0"),
            ({"choices": "yes"}, "choices must be a list of strings, got 'yes'"),
            ({"choices": ["yes", 1]}, "each must be a string, got 1"),
            ({"choices": ["yes", "yes"]}, "choices must differ"),
            ({"choices": ["now", "never"], "kind": When}, "choices must be values of <enum 'When'>, got 'never': "),
            ({"choices": ["1"], "kind": int}, "choices must be values of <class 'int'>, got '1': "),
            ({"prompt": ""}, "prompt must have 1 to 4000 characters, got 0"),
            ({"prompt": 5}, "prompt must be a string, got 5"),
        ],
    )
    def test_wrong_questions_are_refused(self, jobs: Rowcall, asked: dict[str, object], problem: str) -> None:
        @jobs.task
        def refund(ctx: Context) -> str:
            with pytest.raises(InvalidOption) as refused:
                ctx.wait_for("approval", **asked)  # type: ignore[call-overload]
            return str(refused.value)

        job = refund.enqueue()
        jobs.drain()
        assert problem in str(jobs.get(job).result)
        assert jobs.steps(job) == []
