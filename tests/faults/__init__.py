"""Every statement, every fault: `make faults` prints the table, and `test_faults.py` runs a share of it."""
