"""What can be paused, and what cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall


def test_wrong_use_names_the_parameter_and_the_cure(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        with pytest.raises(InvalidOption, match=r"^task cannot be combined with the queue 'a'; pause or resume one"):
            jobs.pause("a", task="b")
        with pytest.raises(InvalidOption, match=r"^queue must be the name of a queue; for a task, pass task=… instead"):
            jobs.pause()
        assert jobs.paused() == []
