"""Texts about jobs and workers."""

from __future__ import annotations
