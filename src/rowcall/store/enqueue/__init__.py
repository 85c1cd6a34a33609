"""Jobs that are enqueued with relations to others."""
