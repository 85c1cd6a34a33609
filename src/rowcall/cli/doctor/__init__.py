"""What is wrong with a database or a set-up, and what to do about it."""
