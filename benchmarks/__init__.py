"""Measurements of Rowcall next to the bare databases and next to other queues: `python -m benchmarks --help`."""
