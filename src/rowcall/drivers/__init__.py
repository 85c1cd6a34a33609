"""Running plans: on connections of our own, in transactions of our own, or on the caller's in the caller's."""
