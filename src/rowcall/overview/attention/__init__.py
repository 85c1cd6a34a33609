"""What needs attention: one list for people, pages, commands and metrics. `thresholds` says when something does."""
