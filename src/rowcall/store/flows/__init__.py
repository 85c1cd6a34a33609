"""Jobs that wait for others: blockers, and the edges between jobs."""
