"""Chains, blockers and keys: queries and plans."""
