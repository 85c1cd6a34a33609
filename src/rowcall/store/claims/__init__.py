"""How workers and callers claim jobs."""
