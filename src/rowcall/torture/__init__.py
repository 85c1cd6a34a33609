"""`rowcall torture`: workers under faults, and a check that reads only the database and the witness files."""
