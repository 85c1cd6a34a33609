"""Pydantic AI: `rowcall.pydantic_ai`."""
