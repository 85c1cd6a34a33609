"""Workers: registered, alive or lost, and the jobs that they own."""
