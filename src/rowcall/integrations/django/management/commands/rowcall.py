"""`manage.py rowcall`: the command line of Rowcall, on the queue of this project."""

from __future__ import annotations

import importlib.util
import os
import sys
from argparse import REMAINDER, ArgumentParser
from collections.abc import Sequence

from django.conf import settings
from django.core.management.base import BaseCommand

from rowcall.cli.main import main

_OF_DJANGO = ("--settings", "--pythonpath")  # which it has used already


class Command(BaseCommand):
    help = "Runs and shows background jobs: rowcall work, rowcall jobs, …; rowcall --help lists them."
    requires_system_checks: Sequence[str] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        _run(argv[2:])

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *args: object, words: list[str], **options: object) -> None:
        _run(words)


def _run(words: Sequence[str]) -> None:
    arguments = _own(words)
    if arguments[:1] == ["work"]:
        _lead_children_here()
        arguments = with_reload(arguments)
    main(arguments)


def with_reload(words: list[str]) -> list[str]:
    """Return the words with `--reload` while `DEBUG` is on, as with `runserver`; `--noreload` turns that off."""
    kept = [word for word in words if word != "--noreload"]
    if len(kept) < len(words) or not settings.DEBUG or "--reload" in kept or "--help" in kept:
        return kept
    if importlib.util.find_spec("watchfiles") is None:
        sys.stderr.write("no restart after changes: pip install 'rowcall[reload]', or pass --noreload\n")
        return kept
    return [*kept, "--reload"]


def _own(words: Sequence[str]) -> list[str]:
    own: list[str] = []
    skip = False
    for word in words:
        if skip or word.partition("=")[0] in _OF_DJANGO:
            skip = not skip and word in _OF_DJANGO
        else:
            own.append(word)
    return own


def _lead_children_here() -> None:
    """Let processes that the worker starts find the settings: they do not run manage.py."""
    folders = [folder for folder in (sys.path[0], os.environ.get("PYTHONPATH", "")) if folder]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
