"""`rowcall demo`: its tasks, its run and its report."""
