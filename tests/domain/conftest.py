from __future__ import annotations

from hypothesis import settings

# a loaded machine must not fail a test, and a failure must repeat
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
