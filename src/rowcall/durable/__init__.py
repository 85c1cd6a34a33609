"""Durable steps of one attempt: which step comes next, whether it is recorded, and what is written about it.

Each step is a generator of effects, which run at once in a sync handler, and when they are awaited in an async one.
`handler_steps` has what a context calls.
"""
