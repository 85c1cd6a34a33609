"""Most modules here are tests of Django: `test_django` has Django's runner run them, in a separate process."""

from pathlib import Path

OURS = ("test_django.py",)

collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name not in OURS]
