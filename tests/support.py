"""Helpers that all tests share: waiting for a state, and real processes."""

from __future__ import annotations

from rowcall.testing.deadline import eventually
from rowcall.testing.process import ForkedProcess, PythonProcess

__all__ = ["ForkedProcess", "PythonProcess", "eventually"]
