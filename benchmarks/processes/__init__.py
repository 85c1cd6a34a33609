"""Programs of the benchmark that run in separate processes: `python -m benchmarks.processes.NAME`."""
