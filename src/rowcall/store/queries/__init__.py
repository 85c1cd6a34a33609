"""The named queries of each topic."""
