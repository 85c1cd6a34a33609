"""Draw what `rowcall demo` and `rowcall top` print, as SVG, into docs/terminal: `make terminal`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text
from take_screenshots import work_a_day

FOLDER = Path(__file__).with_name("terminal")
COLUMNS, LINES = 96, 36
# without the fonts of another host
SVG_FORMAT = re.sub(r"@font-face {{.*?}}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")


def draw(name: str, *arguments: str, folder: str = ".") -> None:
    env = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    command = [Path(sys.executable).with_name("rowcall"), *arguments]
    printed = subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True, text=True).stdout
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi("\n".join(printed.splitlines()[:LINES])))
        console.save_svg(str(FOLDER / f"{name}.svg"), title=f"rowcall {name}", code_format=SVG_FORMAT, unique_id=name)
    print(FOLDER / f"{name}.svg")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    draw("demo", "demo")
    with tempfile.TemporaryDirectory() as folder:
        work_a_day(Path(folder, "shop.db"))
        draw("top", "top", "--once", "--window", "1d", "--url", "sqlite:///shop.db", folder=folder)


if __name__ == "__main__":
    main()
