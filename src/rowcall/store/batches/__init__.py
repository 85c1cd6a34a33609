"""Batches: named groups of jobs with counts."""
