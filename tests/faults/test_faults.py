"""A share of the cases on each database. `make faults` runs all of them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from rowcall import Batch, Context, Flow, Rowcall, Task
from rowcall.app import queue_of
from tests.command_line import INTERRUPTED
from tests.conformance.notes import Notes
from tests.faults.calls import LEFT_OUT, methods, twins
from tests.faults.cases import Case, Cases
from tests.faults.injection import Fault
from tests.faults.parts import DATABASES, all_cases, is_in_share
from tests.faults.worker_calls import WITHOUT_STATEMENTS, context_methods, worker_calls
from tests.faults.world import app_at
from tests.mysql_server import ALL, require_mysql

SHARE = {"sqlite": 120, "postgres": 120, "mysql": 120}
"""One case of this many, unless the environment says otherwise."""
CALLS = {"sqlite": 6, "postgres": 24, "mysql": 24 if ALL else 128}
"""Likewise one call of this many: each runs once without a fault, on a copy, which takes long on a server."""
PARTS = 2
"""The calls are spread over this many tests, which run on several cores."""


@pytest.fixture
def no_log() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def chosen_cases(cases: Cases, database: str, part: int) -> list[Case]:
    given = os.environ.get("ROWCALL_TEST_FAULT_SHARE")
    of_calls, of_cases = (1, int(given)) if given else (CALLS[database], SHARE[database])
    chosen = [call for call in cases.calls if crc32(call.name.encode()) % of_calls == 0]
    return [case for call in chosen[part::PARTS] for case in cases.of(call) if is_in_share(case, of_cases)]


@pytest.mark.usefixtures("no_log")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("database", DATABASES)
def test_a_fault_leaves_all_or_nothing(database: str, part: int, request: pytest.FixtureRequest) -> None:
    server_url = request.getfixturevalue("postgres_server_url") if database == "postgres" else None
    if database == "mysql":
        require_mysql()
    with all_cases(database, server_url) as cases:
        assert _problems(cases, database, part) == []


def _problems(cases: Cases, database: str, part: int) -> list[str]:
    chosen = chosen_cases(cases, database, part)
    assert chosen
    return [problem for case in chosen for problem in cases.problems(case) or ()]


@pytest.mark.usefixtures("no_log")
def test_vacuum_explains_the_error_of_each_statement() -> None:
    with all_cases("sqlite") as cases:
        (vacuum,) = (call for call in cases.calls if call.name == "vacuum")
        refused = [case for case in cases.of(vacuum) if case.fault is Fault.REFUSED]
        assert [problem for case in refused for problem in cases.problems(case) or ()] == []


def test_every_public_method_with_a_twin_is_called() -> None:
    twins = {name[1:] for name in dir(Rowcall) if name.startswith("a") and hasattr(Rowcall, name[1:])}
    public = {name for name in twins if name and not name.startswith("_")}
    assert public == methods().keys() | LEFT_OUT.keys() & public


@pytest.mark.parametrize("public", [Batch, Flow, Task])
def test_every_method_of_what_a_queue_returns_is_called(public: type) -> None:
    with all_cases("sqlite") as cases:
        names = {call.name for call in cases.calls}
    assert {f"{public.__name__.lower()}.{name}" for name in twins(public)} - names == set()


def test_services_and_methods_of_a_context_are_found(tmp_path: Path) -> None:
    found = {call.name for call in worker_calls()}
    assert {"service heartbeat", "service recovery", "ctx.step", "ctx.wait_for"} <= found
    assert WITHOUT_STATEMENTS.keys() <= set(dir(Context))
    with closing(app_at("sqlite:///:memory:", Notes(tmp_path / "notes"))) as app:
        tasks = queue_of(app.jobs).declared.tasks
        assert [name for name in context_methods() if f"ctx_{name}" not in tasks] == []


def test_calls_on_a_callers_connection_are_found() -> None:
    with all_cases("sqlite") as cases:
        names = {call.name for call in cases.calls}
    assert {"caller's enqueue", "caller's cancel pending", "caller's signal waiting"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_says_what_it_has_done(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.faults", "sqlite"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert any(line.startswith("sqlite") for line in process.stdout)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.terminate()
        shown = process.stdout.read()
    assert process.returncode == INTERRUPTED, shown
    assert shown.splitlines()[-1].startswith("faults: "), shown


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["tests.faults", "--share", "0"], "must be 1 or more, got 0"),
        (["tests.simulation", "--seeds", "9-0"], "the first seed must not be above the last, got 9-0"),
        (["tests.planted", "--record", "no/such/folder.json"], "the folder no/such does not exist"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(command: list[str], problem: str) -> None:
    refused = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert problem in refused.stderr
