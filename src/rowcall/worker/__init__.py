"""The worker: a loop that settles, stages and claims; lanes that run handlers; a keeper that beats and recovers."""
