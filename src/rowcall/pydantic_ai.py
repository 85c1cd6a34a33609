"""Pydantic AI. See docs/agents.md."""

from rowcall.integrations.pydantic_ai.durability import RowcallDurability, ask_people, stream_text

__all__ = ["RowcallDurability", "ask_people", "stream_text"]
