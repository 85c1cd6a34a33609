"""The commands: one module for each, or for a few that share a topic."""
