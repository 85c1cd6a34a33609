"""Move a queue to another database: what is copied, and how."""
