"""Hints that something may be due. Never needed for correctness: a worker without any would only be slower."""
