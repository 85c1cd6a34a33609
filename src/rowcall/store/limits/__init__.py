"""Concurrency and rate limits: queries and plans."""
