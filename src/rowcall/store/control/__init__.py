"""What people do to jobs and queues: queries and plans."""
