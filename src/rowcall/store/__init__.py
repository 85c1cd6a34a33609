"""What to say to the database, and in which order. Nothing here runs a statement."""
