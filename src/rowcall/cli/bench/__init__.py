"""`rowcall bench`: its tasks and measurements."""
