"""`rowcall rekey`, and what commands show with a key and without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rowcall import Encryption, Rowcall
from tests.cli.conftest import Run

OLD, NEW = "o" * 43, "n" * 43
APP = """
from rowcall import Encryption, Rowcall

jobs = Rowcall("sqlite:///queue.db", encrypt=Encryption(keys={keys}))
"""


@pytest.fixture
def job_id(folder: Path) -> int:
    with Rowcall("sqlite:///queue.db", encrypt=Encryption(keys=[OLD])) as jobs:
        job = jobs.enqueue("charge", {"card": "4111"})
        (claimed,) = jobs.claim("me")
        jobs.fail(claimed, "CARD:REFUSED", "4111 is empty")
        return job.id


def test_rekey_reports_what_it_did(folder: Path, run: Run, job_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "app.py").write_text(APP.format(keys=[NEW]))
    result = run("rekey", "app:jobs")
    assert (result.exit_code, "2 rows cannot be decrypted with these keys" in result.stdout) == (1, True)
    monkeypatch.setenv("ROWCALL_ENCRYPTION_KEYS", f"{NEW}, {OLD}")
    found = json.loads(run("rekey", "--url", "sqlite:///queue.db", "--json").stdout)
    assert found == {"checked": 2, "rekeyed": 2, "unreadable": 0}
    assert "checked 2 rows, encrypted 0 rows again" in run("rekey", "app:jobs").stdout


def test_commands_show_what_is_encrypted_only_with_the_key(folder: Path, run: Run, job_id: int) -> None:
    for command in (("show", str(job_id)), ("jobs",), ("errors",)):
        hidden = run(command[0], "--url", "sqlite:///queue.db", *command[1:]).stdout
        assert ("4111" in hidden, "encrypted:v1" in hidden, "encrypted" in hidden) == (False, False, True)
        (folder / "app.py").write_text(APP.format(keys=[OLD]))
        assert "4111" in run(command[0], "app:jobs", *command[1:]).stdout


def test_wrong_keys_in_the_environment_and_no_keys_are_refused(
    run: Run, job_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("rekey", "--url", "sqlite:///queue.db")
    assert (result.exit_code, "needs keys" in result.stderr) == (2, True)
    monkeypatch.setenv("ROWCALL_ENCRYPTION_KEYS", "short")
    result = run("stats", "--url", "sqlite:///queue.db")
    assert (result.exit_code, "$ROWCALL_ENCRYPTION_KEYS: must have 32 bytes each" in result.stderr) == (2, True)
