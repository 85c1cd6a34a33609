"""What an app declares: tasks and their options, limits, retry policies, error codes."""
