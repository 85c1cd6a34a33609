"""The dashboard and the JSON API: one ASGI app over a queue. It needs the extra `http`."""
