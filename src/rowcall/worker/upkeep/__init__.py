"""Beside the loop: heartbeat, recovery, cancel requests, pruning, held jobs, mismatches, progress."""
