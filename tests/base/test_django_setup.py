"""Django is set up where its settings are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowcall.base.django_setup import SETTINGS, set_up_django
from rowcall.testing.process import PythonProcess

PROGRAM = """
import sys
from rowcall.base.django_setup import set_up_django
sys.path.remove("")
assert set_up_django() and set_up_django()
from django.apps import apps
print(apps.ready, sys.path[0])
"""


def test_without_settings_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTINGS, raising=False)
    assert not set_up_django()


def test_settings_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "shop_settings.py").write_text("INSTALLED_APPS = []\n")
    environment = {**os.environ, SETTINGS: "shop_settings"}
    with PythonProcess("-c", PROGRAM, cwd=str(tmp_path), env=environment) as process:
        assert process.wait() == 0, process.output
        assert f"True {tmp_path}" in process.output
