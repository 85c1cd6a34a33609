"""The operations of a queue: each makes a plan and runs it, sync or async."""
