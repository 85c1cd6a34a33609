"""The worker: a loop that settles and claims, lanes that run handlers, upkeep that sends heartbeats and recovers."""
