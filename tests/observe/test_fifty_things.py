"""The five questions, asked of a database in which fifty different things went wrong on purpose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from traceback import extract_tb

import pytest
from click.testing import CliRunner

from rowcall import Rowcall
from rowcall.cli.main import main
from rowcall.testing import FakeClock
from tests.observe import mishaps  # noqa: F401 (fills the catalogue)
from tests.observe.scene import CATALOGUE, Scene, ask, let_it_all_go_wrong


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    server = request.param == "postgres"
    url = str(request.getfixturevalue("postgres_url")) if server else f"sqlite:///{tmp_path}/app.db"
    clock = FakeClock(datetime.now(UTC).replace(microsecond=0))
    with Rowcall(url, clock=clock, mismatch_grace=0) as jobs:
        yield Scene(jobs, clock, url, tmp_path)


def test_fifty_things_are_seen(scene: Scene) -> None:
    assert len({mishap.name for mishap in CATALOGUE}) == len(CATALOGUE) == 50
    let_it_all_go_wrong(scene)
    answers = ask(scene.jobs)
    unseen = []
    for mishap in CATALOGUE:
        try:
            mishap.trace.look_for(mishap.name, answers)
        except (AssertionError, KeyError) as error:
            unseen.append(f"{mishap.name}: {extract_tb(error.__traceback__)[-1].line} {error!r}")
    assert not unseen, "\n".join(unseen)

    statuses = Counter(mishap.trace.status for mishap in CATALOGUE if mishap.trace.status)
    assert {status: count for status, count in answers.stats.by_status.items() if count} == statuses
    assert sum(group.count for group in answers.errors.values()) == statuses["failed"]
    assert len(answers.stuck) == statuses["running"]
    _look_from_the_shell(scene)


def _look_from_the_shell(scene: Scene) -> None:
    """By the database's own clock: ages differ, and nothing else does."""

    def told(command: str) -> dict[str, object]:
        result = CliRunner().invoke(main, [command, "--url", scene.url, "--json"])
        assert result.exit_code == 0, result.output
        answer: dict[str, object] = json.loads(result.stdout)
        return answer

    assert told("stats")["by_type"] == scene.jobs.stats().by_type
    assert [group["error_code"] for group in told("errors")["errors"]] == [  # type: ignore[attr-defined]
        group.error_code for group in scene.jobs.top_errors()
    ]
    assert len(told("stuck")["jobs"]) == len(scene.jobs.stuck())  # type: ignore[arg-type]
    for command in ("stats", "stuck", "retries", "errors", "retention", "top"):
        result = CliRunner().invoke(main, [command, "--url", scene.url])
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output
