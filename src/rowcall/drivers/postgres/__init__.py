"""Run plans on PostgreSQL, through a pool of connections."""
