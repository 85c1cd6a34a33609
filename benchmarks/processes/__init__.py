"""Programs of the benchmark that run in processes of their own: `python -m benchmarks.processes.NAME`."""
