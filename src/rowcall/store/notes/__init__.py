"""Notes: what is remembered until a time, by name."""
