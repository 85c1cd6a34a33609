"""What handlers write next to their results: values of streams, and lines of logs."""
