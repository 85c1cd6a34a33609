"""`rowcall demo`: its tasks, its view and its report."""
