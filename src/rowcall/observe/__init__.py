"""What others see of a worker: metrics, traces, and the fields of its log."""
