"""Worker processes: the supervisor, its signals, the names of workers."""
