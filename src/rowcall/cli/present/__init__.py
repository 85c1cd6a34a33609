"""How commands print: tables, formats, live views, log lines."""
