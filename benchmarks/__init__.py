"""Measurements of Rowcall beside the bare databases and beside other queues: `python -m benchmarks --help`."""
