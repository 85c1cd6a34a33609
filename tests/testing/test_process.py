from __future__ import annotations

import signal

import pytest

from rowcall.testing.process import PythonProcess

WAIT = "import signal; print('ready', flush=True); signal.pause()"


def test_a_process_that_ends_by_itself_leaves_its_output_and_code() -> None:
    with PythonProcess("-c", "import sys; print('hello'); sys.exit(3)") as process:
        assert process.wait() == 3
        assert process.output == "hello\n"
        assert not process.alive


def test_a_process_can_be_waited_for_and_killed() -> None:
    with PythonProcess("-c", WAIT) as process:
        process.wait_for("ready")
        assert process.alive
        process.kill()
        assert process.returncode == -signal.SIGKILL


def test_a_stopped_process_is_not_left_behind() -> None:
    with PythonProcess("-c", WAIT) as process:
        process.wait_for("ready")
        process.send(signal.SIGSTOP)
    assert process.returncode == -signal.SIGKILL


def test_a_text_that_will_never_come_is_not_waited_for_once_the_process_has_ended() -> None:
    with PythonProcess("-c", "print('something else')") as process, pytest.raises(AssertionError, match="something"):
        process.wait_for("ready")


def test_the_environment_can_be_chosen() -> None:
    with PythonProcess("-c", "import os; print(os.environ.get('A'))", env={"A": "b"}) as process:
        process.wait()
        assert process.output == "b\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_process_even_if_this_one_ignores_it(number: signal.Signals) -> None:
    former = signal.signal(number, signal.SIG_IGN)
    try:
        with PythonProcess("-c", WAIT) as process:
            process.wait_for("ready")
            process.send(number)
            assert process.wait() == -number
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, former)
