"""The loop of a worker: rounds of settling, staging and claiming; waiting; trouble with the database."""
