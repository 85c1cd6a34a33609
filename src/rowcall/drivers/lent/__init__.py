"""The caller's own connections, of every kind: a plan is run inside whatever transaction the caller has.

We never begin, commit or roll back there, and rely on none of the connection's settings.
"""
