"""Flask: `rowcall.flask`."""
