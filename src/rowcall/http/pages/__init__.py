"""The pages of the dashboard: what each shows."""
