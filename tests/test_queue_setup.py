"""The URL and the options of a queue: given, read from the environment, or configured later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.app import queue_of


def test_without_a_url_the_environment_is_read_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Rowcall(default_queue="web")

    @jobs.schedule(every=60)
    @jobs.task
    def send() -> None: ...

    assert repr(jobs) == "<Rowcall without a URL yet>"
    monkeypatch.setenv("ROWCALL_URL", f"sqlite:///{tmp_path}/late.db")
    with jobs:
        assert send.enqueue().queue == "web"
    assert repr(jobs) == f"<Rowcall {tmp_path}/late.db>"
    assert (tmp_path / "late.db").exists()


def test_a_queue_is_configured_later_and_once(tmp_path: Path) -> None:
    jobs = Rowcall(table_prefix="app_")

    @jobs.schedule(every=60)
    @jobs.task
    def send() -> None: ...

    jobs.configure(url=f"sqlite:///{tmp_path}/app.db", default_queue="web", scrub=lambda text: text.replace("x", "-"))
    with jobs:
        assert send.enqueue().queue == "web"
        assert '"web"' in queue_of(jobs).declared.schedules["send"].options
        assert queue_of(jobs).config.table_prefix == "app_"
        assert queue_of(jobs).declared.failures.scrub("xyz") == "-yz"
        with pytest.raises(InvalidOption, match=r"^configure was already called; call it once, with the URL and all"):
            jobs.configure(url="sqlite:///other.db")


def test_a_queue_with_a_url_or_in_use_cannot_be_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOption, match=r"^configure: this queue got its URL from Rowcall\(url\); pass all "):
        Rowcall("sqlite:///:memory:").configure(durability="normal")
    monkeypatch.setenv("ROWCALL_URL", f"sqlite:///{tmp_path}/app.db")
    with Rowcall() as jobs:
        jobs.enqueue("send")
        with pytest.raises(InvalidOption, match=r"already in use, with .*app\.db; call configure before$"):
            jobs.configure(durability="normal")


@pytest.mark.parametrize("wrong", [{"durability": "ful"}, {"url": "app.db"}, {"tracing": 3, "durability": "ful"}])
def test_a_refused_configuration_changes_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    jobs = Rowcall()
    with pytest.raises(InvalidOption):
        jobs.configure(default_queue="mail", scrub=str.lower, **wrong)
    assert queue_of(jobs).declared.options.default_queue == "default"
    jobs.configure(url=f"sqlite:///{tmp_path}/app.db")
    with jobs:
        assert jobs.enqueue("send").queue == "default"
        assert queue_of(jobs).declared.failures.scrub("X") == "X"


def test_a_new_default_queue_is_that_of_tasks_with_options_and_of_bound_calls(tmp_path: Path) -> None:
    jobs = Rowcall()

    @jobs.task
    def send(to: str) -> None: ...

    urgent, bound, lent = send.using(priority=3), send.bind("a"), send.using(connection=None)
    jobs.configure(url=f"sqlite:///{tmp_path}/app.db", default_queue="web")
    with jobs:
        written = [send.enqueue("a"), urgent.enqueue("a"), lent.enqueue("a"), *jobs.start_chain([bound]).steps]
        assert [job.queue for job in written] == ["web"] * 4
        assert urgent.enqueue("b").priority == 3


def test_wrong_options_are_refused_before_the_url_is_known() -> None:
    with pytest.raises(InvalidOption, match="durability"):
        Rowcall(durability="most")
    with pytest.raises(InvalidOption, match=r"^unknown option 'table_prefx' \(did you mean 'table_prefix'\?\)$"):
        Rowcall(table_prefx="app_")  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="durability"):
        Rowcall().configure(durability="most")
    with pytest.raises(InvalidOption, match=r"^unknown option 'ulr' \(did you mean 'url'\?\)$"):
        Rowcall().configure(ulr="sqlite:///app.db")  # type: ignore[call-arg]
