"""Schedules: queries and plans."""
