"""`rowcall move`: move a queue to another database while producers and workers run."""
