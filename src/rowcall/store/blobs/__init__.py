"""Which jobs need which blobs: queries and plans."""
