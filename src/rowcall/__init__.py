"""Background jobs as rows in the database you already have."""
