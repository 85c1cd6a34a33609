"""What the workers of `rowcall demo` are started with; $ROWCALL_URL names the file."""

from __future__ import annotations

from rowcall.cli.demo.tasks import Demo

jobs = Demo().jobs
