"""A model of the queue in plain Python, and a Hypothesis machine that drives it beside a real store."""
