"""`RowcallDurability`: the model requests and tool calls of an agent are durable steps of the job that runs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from datetime import timedelta
from weakref import WeakKeyDictionary

import msgspec
from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationId,
    EventStreamHandlerId,
    JournalCallableOperationBackend,
    ModelRequestId,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    conversation_id_from_run_id,
)
from pydantic_ai.messages import AgentStreamEvent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.tools import AgentDepsT

from rowcall.context import Context, current
from rowcall.durable.step_state import inside

APPROVE, DENY = "approve", "deny"
LONGEST_ARGUMENTS = 1000

_numbers: WeakKeyDictionary[Context, Counter[str]] = WeakKeyDictionary()
"""How often each name was used in an attempt: names of steps are unique, and the same again in a later attempt."""


def _numbered(ctx: Context, name: str) -> str:
    names = _numbers.setdefault(ctx, Counter())
    names[name] += 1
    return name if names[name] == 1 else f"{name} {names[name]}"


class StepBackend(JournalCallableOperationBackend[None]):
    """Runs what an agent does as steps, named `support: model request` or `support: look_up`."""

    def __init__(self, agent_name: str, default_model_id: str | None) -> None:
        config = RoleBasedOperationConfig[None](model=None, event=None, capability=None, tool=None)
        super().__init__(agent_name=agent_name, default_model_id=default_model_id, config=config)
        self._agent_name = agent_name

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,
    ) -> object:
        if isinstance(operation_id, EventStreamHandlerId):  # one for each event, and it only shows what happens
            return await body()
        if isinstance(operation_id, ModelRequestId):
            name = f"{self._agent_name}: model request"
        elif isinstance(operation_id, ToolsetCallToolId) and ":" in name:  # the tool comes last
            name = f"{self._agent_name}: {name.rpartition(':')[2]}"
        ctx = current()
        return await ctx.step(_numbered(ctx, name), body)


class RowcallDurability(BaseDurabilityCapability[AgentDepsT]):
    """A capability of an agent that runs in jobs: each model request and tool call is a durable step.

        agent = Agent("openai:gpt-5", name="support", capabilities=[RowcallDurability()])

    A later attempt does not repeat what has finished. Outside a job, the agent runs as always. `models` are further
    models, by the names that `agent.run(model=…)` is called with; `name` replaces that of the agent in the names of
    steps.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Rowcall",
        durable_unit_noun="step",
        durable_container_noun="job",
        codec=JSON_CODEC,
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)

    @property
    def in_durable_context(self) -> bool:
        """Return whether a handler runs here, and no step of it."""
        try:
            current()
        except RuntimeError:
            return False
        return inside.get() is None

    def get_default_run_id(self) -> str | None:
        """Return the same id for the same run of each attempt."""
        if not self.in_durable_context:
            return None
        ctx = current()
        return f"{ctx.job.id}:{_numbered(ctx, f'{self.name} run')}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    def get_durable_operation_backend(self) -> StepBackend:
        return StepBackend(self.name, self.default_model_id)


async def stream_text(ctx: RunContext[object], events: AsyncIterable[AgentStreamEvent]) -> None:
    """Append the text of a model to the stream `out` of the job.

    RowcallDurability(event_stream_handler=stream_text)
    """
    async for event in events:
        text = ""
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            text = event.part.content
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            text = event.delta.content_delta
        if text:
            current().stream(text)


async def ask_people(
    ctx: Context, requests: DeferredToolRequests, *, timeout: float | timedelta | None = None
) -> DeferredToolResults:
    """Ask people about the tool calls that need an approval, all at once, and return their answers.

        while isinstance(result.output, DeferredToolRequests):
            answers = await ask_people(ctx, result.output)
            result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)

    Each is a wait for a signal with the choices `approve` and `deny`. After `timeout`, raises `SignalTimeout`.
    """
    calls = requests.approvals
    waits = [
        ctx.wait_for(f"approval {call.tool_call_id}", choices=[APPROVE, DENY], prompt=_question(call), timeout=timeout)
        for call in calls
    ]
    answers = await ctx.gather(*waits)
    return DeferredToolResults(
        approvals={
            call.tool_call_id: True if answer == APPROVE else ToolDenied()
            for call, answer in zip(calls, answers, strict=True)
        }
    )


def _question(call: ToolCallPart) -> str:
    arguments = msgspec.json.encode(call.args_as_dict(), enc_hook=str).decode()
    return f"May the agent call {call.tool_name} with {arguments[:LONGEST_ARGUMENTS]}?"
