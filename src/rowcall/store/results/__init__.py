"""Waiting for the results of jobs: queries and plans."""
