"""The values that handlers append to streams of their jobs."""
