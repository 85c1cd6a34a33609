"""Child processes that run handlers with `isolation="process"`."""
