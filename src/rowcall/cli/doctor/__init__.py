"""Checks of a database and its environment, with advice."""
