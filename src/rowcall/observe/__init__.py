"""What can be seen from outside: health, metrics, traces, the fields of the log."""
