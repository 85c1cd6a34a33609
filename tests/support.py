"""Helpers that all tests share: waiting for a state, and real processes."""

from __future__ import annotations

from rowcall.testing.process import ForkedProcess, PythonProcess
from rowcall.testing.waiting import eventually

__all__ = ["ForkedProcess", "PythonProcess", "eventually"]
