"""Has Django's own runner run the tests of this folder, on a file and on a server."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.mysql_server import ALL
from tests.support import PythonProcess

pytestmark = [pytest.mark.slow, pytest.mark.no_tables]

ROOT = Path(__file__).parents[3]
SETTINGS = "tests.integrations.django.settings"
MODULES = sorted(
    f"tests.integrations.django.{path.stem}"
    for path in Path(__file__).parent.glob("test_*.py")
    if path.name != Path(__file__).name
)


@pytest.fixture(params=["sqlite", "postgresql", *(["mysql"] if ALL else [])])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    made = {**os.environ, "DJANGO_SETTINGS_MODULE": SETTINGS, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    if request.param != "sqlite":
        fixture = "postgres_url" if request.param == "postgresql" else "mysql_url"
        return {**made, "DATABASE_URL": request.getfixturevalue(fixture)}
    return {**made, "DATABASE_FILE": str(tmp_path / "site.db")}


def test_with_the_runner_of_django(environment: dict[str, str], tmp_path: Path) -> None:
    arguments = ("-m", "django", "test", "--noinput", *MODULES)
    with PythonProcess(*arguments, env=environment, cwd=str(tmp_path)) as process:
        assert process.wait(within=100) == 0, process.output
        assert re.search(r"^Ran \d\d+ tests", process.output, re.MULTILINE), process.output
        assert re.search(r"^OK$", process.output, re.MULTILINE), process.output  # nothing was skipped


def test_the_tests_of_django(environment: dict[str, str], tmp_path: Path) -> None:
    folder = ROOT / ".venv" / "django-tests"
    if not folder.exists() and not os.environ.get("ROWCALL_REQUIRE_DJANGO_TESTS"):
        pytest.skip("needs Django's source: make django-tests")
    arguments = ("-m", "tests.integrations.django.own_tests", str(folder))
    with PythonProcess(*arguments, env=environment, cwd=str(tmp_path)) as process:
        assert process.wait(within=100) == 0, process.output
        assert re.search(r"ran [5-9]\d of its tests on .*, 0 failed", process.output), process.output


def test_outside_of_tests(environment: dict[str, str], tmp_path: Path) -> None:
    """Enqueueing joins the blocks around it, and a worker survives that the server cuts its connection."""
    with PythonProcess("-m", "tests.integrations.django.live_program", env=environment, cwd=str(tmp_path)) as process:
        assert process.wait(within=100) == 0, process.output
        assert "transactions are joined" in process.output
        assert "staff use the dashboard" in process.output
        assert ("another connection" in process.output) == ("DATABASE_URL" in environment)
