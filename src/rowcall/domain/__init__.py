"""Values in, values out: jobs, errors, states, retries, schedules, payloads, limits. No clock, no I/O, no chance."""
