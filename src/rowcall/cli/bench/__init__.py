"""`rowcall bench`: its tasks and where it measures."""
