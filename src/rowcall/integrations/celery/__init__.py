"""Celery's names on top of Rowcall: `app` (the app and its settings), `task`, `canvas` (chains, groups), `result`."""
