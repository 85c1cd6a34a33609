"""Tallies, totals and history, and the questions they answer: queries and plans."""
