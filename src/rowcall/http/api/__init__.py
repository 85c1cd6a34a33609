"""The JSON API: what each endpoint does. `table` lists them, and `openapi` describes them."""
