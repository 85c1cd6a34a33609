"""The app of the workers of `rowcall demo`; $ROWCALL_URL names the file."""

from __future__ import annotations

from rowcall.cli.demo.tasks import Demo

jobs = Demo().jobs
