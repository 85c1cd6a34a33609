"""One job from enqueue to its end: queries and plans."""
