"""What can be seen from outside: health, metrics, traces."""
