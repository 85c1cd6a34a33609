"""The ways in which a job or an attempt ends."""
