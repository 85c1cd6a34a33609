"""Measurements of Rowcall beside the bare database and beside huey: `python -m benchmarks --help`."""
