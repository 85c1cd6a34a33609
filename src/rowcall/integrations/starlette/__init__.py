"""Starlette: `rowcall.starlette`."""
