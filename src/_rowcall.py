"""The command `rowcall`: outside of the package, so that Ctrl-C while that is imported ends it quietly too."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    try:
        from rowcall.cli.main import main as command
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    command()
