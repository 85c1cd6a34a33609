"""Draw what `rowcall demo` and `rowcall top` print, as SVG, into docs/terminal: `make terminal`."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text
from take_screenshots import work_a_day

FOLDER = Path(__file__).with_name("terminal")
COLUMNS, LINES = 96, 36
# without the fonts of another host
SVG_FORMAT = re.sub(r"@font-face {{.*?}}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")


def draw(name: str, *arguments: str, folder: str = ".", live: bool = False) -> None:
    command = [Path(sys.executable).with_name("rowcall"), *arguments]
    if live:  # what it draws again and again would be in the picture
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # it prints how to call it
        env = {**os.environ, "PATH": path, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
        printed = subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True, text=True).stdout
    else:
        printed = on_a_terminal(command, folder).replace(f"{os.path.realpath(folder)}/", "")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi("\n".join(printed.splitlines()[:LINES])))
        console.save_svg(str(FOLDER / f"{name}.svg"), title=f"rowcall {name}", code_format=SVG_FORMAT, unique_id=name)
    print(FOLDER / f"{name}.svg")


def on_a_terminal(command: list[str | Path], folder: str) -> str:
    """Return what a command prints on a terminal: in a pipe, no line would be wrapped."""
    reading, writing = os.openpty()
    fcntl.ioctl(reading, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color"}
    printed = b""
    with subprocess.Popen(command, env=env, cwd=folder, stdin=writing, stdout=writing, stderr=writing) as process:
        os.close(writing)
        try:
            while more := os.read(reading, 65536):
                printed += more
        except OSError:
            pass  # Linux says so when the last writer has ended
        finally:
            os.close(reading)
    if process.returncode:
        sys.exit(f"{command} ended with {process.returncode}")
    return printed.decode().replace("\r\n", "\n")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    draw("demo", "demo", live=True)
    with tempfile.TemporaryDirectory() as folder:
        work_a_day(Path(folder, "shop.db"))
        draw("top", "top", "--once", "--window", "1d", "--url", "sqlite:///shop.db", folder=folder)


if __name__ == "__main__":
    main()
