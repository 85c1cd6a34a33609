"""`make bench-field`: Rowcall next to other queues, each run by the command of its docs."""
