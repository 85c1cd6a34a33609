"""Beside the loop: heartbeat, recovery, cancel requests, pruning, held jobs, the liveness file."""
