"""Background services of a worker: heartbeat, recovery, cancel requests, pruning, held jobs, unknown tasks."""
