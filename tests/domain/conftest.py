from __future__ import annotations

from hypothesis import settings

# a loaded machine is no reason to fail, and a failure comes again when the test is run again
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
