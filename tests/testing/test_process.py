from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rowcall.testing.deadline import eventually
from rowcall.testing.process import ForkedProcess, PythonProcess

WAIT = "import signal; print('ready', flush=True); signal.pause()"

both = pytest.mark.parametrize("process_class", [PythonProcess, ForkedProcess])


@both
def test_a_process_that_ends_by_itself_leaves_its_output_and_code(process_class: type[PythonProcess]) -> None:
    with process_class("-c", "import sys; print('hello'); sys.exit(3)") as process:
        assert process.wait() == 3
        assert process.output == "hello\n"
        assert not process.alive


@both
def test_a_process_can_be_waited_for_and_killed(process_class: type[PythonProcess]) -> None:
    with process_class("-c", WAIT) as process:
        process.wait_for("ready")
        assert process.alive
        process.kill()
        assert process.returncode == -signal.SIGKILL


@both
def test_a_stopped_process_is_not_left_behind(process_class: type[PythonProcess]) -> None:
    with process_class("-c", WAIT) as process:
        process.wait_for("ready")
        process.send(signal.SIGSTOP)
    assert process.returncode == -signal.SIGKILL


@both
def test_a_text_that_will_never_come_is_not_waited_for_once_the_process_has_ended(
    process_class: type[PythonProcess],
) -> None:
    with process_class("-c", "print('something else')") as process, pytest.raises(AssertionError, match="something"):
        process.wait_for("ready")


@both
def test_the_environment_can_be_chosen(process_class: type[PythonProcess]) -> None:
    with process_class("-c", "import os; print(os.environ.get('A'))", env={"A": "b"}) as process:
        process.wait()
        assert process.output == "b\n"


@both
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_process_even_if_this_one_ignores_it(
    process_class: type[PythonProcess], number: signal.Signals
) -> None:
    former = signal.signal(number, signal.SIG_IGN)
    try:
        with process_class("-c", WAIT) as process:
            process.wait_for("ready")
            process.send(number)
            assert process.wait() == -number
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, former)


def test_a_forked_process_runs_as_the_interpreter_would_run_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(
        "import atexit, sys\natexit.register(print, 'at exit')\nprint(__name__, __package__, sys.argv[1:])\nsys.exit(7)"
    )
    with ForkedProcess("-m", "package", "some", "words", cwd=str(tmp_path)) as process:
        assert process.wait() == 7
        assert process.output == "__main__ package ['some', 'words']\nat exit\n"
    with ForkedProcess("-c", "import sys\nclass A: pass\nprint(A, sys.argv); 1 / 0", "word") as process:
        assert process.wait() == 1
        assert "<class '__main__.A'> ['-c', 'word']\n" in process.output
        assert "\nZeroDivisionError: division by zero\n" in process.output


def test_forked_processes_end_with_the_one_that_started_them() -> None:
    program = (
        f"from rowcall.testing.process import ForkedProcess; import signal\np = ForkedProcess('-c', {WAIT!r})\n"
        "p.wait_for('ready'); print(p.pid, flush=True); signal.pause()"
    )
    with PythonProcess("-c", program) as owner:
        owner.wait_for("\n")
        forked = int(owner.output)
        assert Path(f"/proc/{forked}").exists()
        owner.kill()
    eventually(lambda: not Path(f"/proc/{forked}").exists())
