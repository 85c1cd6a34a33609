"""Agents in jobs: what has finished is not repeated, people approve calls, and text is streamed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from rowcall import Backoff, Context, Rowcall
from rowcall.pydantic_ai import RowcallDurability, ask_people, stream_text
from rowcall.testing.fake_clock import FakeClock


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", clock=FakeClock()) as found:
        yield found


class Support:
    """An agent that looks two things up side by side, asks for a refund, and answers. `seen` is what it has done."""

    def __init__(self, jobs: Rowcall) -> None:
        self.seen: list[str] = []
        self.failures = iter([ConnectionError("no route")])
        agent = Agent(
            FunctionModel(stream_function=self._script),
            name="support",
            output_type=[str, DeferredToolRequests],
            capabilities=[RowcallDurability(event_stream_handler=stream_text)],
        )

        @agent.tool_plain
        async def look_up() -> str:
            self.seen.append("look_up")
            return "paid"

        @agent.tool_plain
        async def track() -> str:
            self.seen.append("track")
            for error in self.failures:
                raise error
            return "lost"

        @agent.tool_plain(requires_approval=True)
        async def refund(euros: int) -> str:
            self.seen.append(f"refund {euros}")
            return "refunded"

        @jobs.task(retry=Backoff.constant(0))
        async def answer(ctx: Context, question: str) -> str:
            result = await agent.run(question)
            while isinstance(result.output, DeferredToolRequests):
                answers = await ask_people(ctx, result.output)
                result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
            return str(result.output)

        self.answer = answer

    async def _script(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        self.seen.append(f"model {len(returned)}")
        if not returned:
            yield {
                0: DeltaToolCall("look_up", "{}", tool_call_id="one"),
                1: DeltaToolCall("track", "{}", tool_call_id="two"),
            }
        elif len(returned) == 2:
            yield {0: DeltaToolCall("refund", '{"euros": 120}', tool_call_id="three")}
        else:
            for word in ("It", " was ", str(returned[-1].content)):
                yield word


@pytest.mark.parametrize(("choice", "said"), [("approve", "refunded"), ("deny", "The tool call was denied.")])
def test_nothing_that_has_finished_is_repeated(jobs: Rowcall, choice: str, said: str) -> None:
    support = Support(jobs)
    job = support.answer.enqueue("Where is my order?")
    for _ in range(3):
        jobs.drain()
    assert sorted(support.seen) == sorted(["model 0", "look_up", "track", "track", "model 2"])  # track has failed once
    (wait,) = jobs.open_waits().waits
    assert (wait.name, wait.question) == (
        "approval three",
        {"prompt": 'May the agent call refund with {"euros":120}?', "choices": ["approve", "deny"]},
    )
    jobs.signal(job, wait.name, choice)
    jobs.drain()
    assert jobs.get(job).result == f"It was {said}"
    assert "".join(map(str, jobs.stream(job))) == f"It was {said}"
    assert support.seen[5:] == [*(["refund 120"] if choice == "approve" else []), "model 3"]
    assert [step.name for step in jobs.steps(job)] == [
        *("support: model request", "support: look_up", "support: track", "support: model request 2"),
        *("approval three", *(["support: refund"] if choice == "approve" else []), "support: model request 3"),
    ]


def test_outside_a_job_and_inside_a_step_the_agent_runs_as_always(jobs: Rowcall) -> None:
    agent = Agent(TestModel(custom_output_text="fine"), name="plain", capabilities=[RowcallDurability()])
    assert asyncio.run(agent.run("How are you?")).output == "fine"  # run_sync would leave an event loop behind

    @jobs.task
    async def whole(ctx: Context) -> str:
        async def ask() -> str:
            return str((await agent.run("How are you?")).output)

        return await ctx.step("ask", ask)

    job = whole.enqueue()
    jobs.drain()
    assert [(step.name, step.result) for step in jobs.steps(job)] == [("ask", "fine")]
