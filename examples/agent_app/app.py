"""A support agent: it makes a plan, looks things up, asks a person before it refunds, and streams its answer.

The model is Pydantic AI's model for tests, so no key and no network is needed.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from rowcall import Context, Rowcall
from rowcall.pydantic_ai import RowcallDurability, ask_people, stream_text

DATABASE_URL = os.environ.get("DATABASE_URL", "sqlite:///app.db")  # or postgresql://… or mysql://…
SECONDS_PER_WORD = float(os.environ.get("SECONDS_PER_WORD", "0.1"))
PLAN = "I look up the order and the parcel. If the parcel is lost, I ask for a refund. "
ANSWER = "I am sorry that your parcel was lost. We have paid back 120 euros, and you will have them by Friday. "

jobs = Rowcall(DATABASE_URL)


async def script(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    """Say what a language model would say: first a plan and two calls, then a third call, then the answer."""
    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    calls = {}
    if not returned:
        calls[0] = DeltaToolCall("look_up_order", '{"order": 7}', tool_call_id="order-7")
        calls[1] = DeltaToolCall("track_parcel", '{"order": 7}', tool_call_id="parcel-7")
    elif len(returned) == 2:
        calls[0] = DeltaToolCall("refund", '{"order": 7, "euros": 120}', tool_call_id="refund-7")
    text = PLAN if not returned else ANSWER if not calls else ""
    for word in text.split():
        await asyncio.sleep(SECONDS_PER_WORD)
        yield f"{word} "
    if calls:
        yield calls


agent = Agent(
    FunctionModel(stream_function=script),  # in a real app: "openai:gpt-5", for example
    name="support",
    output_type=[str, DeferredToolRequests],
    capabilities=[RowcallDurability(event_stream_handler=stream_text)],
)


@agent.tool_plain
async def look_up_order(order: int) -> dict[str, object]:
    print(f"looked up order {order}", flush=True)
    return {"order": order, "euros": 120, "paid": True}


@agent.tool_plain
async def track_parcel(order: int) -> str:
    print(f"tracked the parcel of order {order}", flush=True)
    return "lost in transit"


@agent.tool_plain(requires_approval=True)
async def refund(order: int, euros: int) -> str:
    print(f"refunded {euros} euros of order {order}", flush=True)
    return "refunded"


@jobs.task
async def answer(ctx: Context, question: str) -> str:
    result = await agent.run(question)
    while isinstance(result.output, DeferredToolRequests):
        answers = await ask_people(ctx, result.output)  # keeps no slot and no memory, however long it takes
        result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
    return result.output


if __name__ == "__main__":
    job = answer.enqueue(" ".join(sys.argv[1:]))
    print(f"job {job.id}", flush=True)
    words, part = jobs.stream(job), 1
    for word in words:
        if words.part > part:  # the worker was lost, and the model is asked again
            part = words.part
            print("\n… ", end="")
        print(word, end="", flush=True)
    print(f"\n{jobs.get(job).status}", flush=True)
