"""What every reader of a queue needs: scrubbed jobs, the liveness of workers, formats."""
