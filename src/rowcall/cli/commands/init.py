"""`rowcall init`: write a starter for the framework of the project."""

from __future__ import annotations

from pathlib import Path

import click

from rowcall.cli.command import Answer, answering_command
from rowcall.cli.present.console import show
from rowcall.cli.starter import FRAMEWORKS, GITIGNORE, framework_of, starter

_NEXT = {
    "django": 'add "rowcall.django" to INSTALLED_APPS, then: python manage.py migrate; python manage.py rowcall work',
    "fastapi": "fastapi dev app.py, or uvicorn app:app; in another terminal: rowcall work app:jobs",
    "litestar": "litestar run, or uvicorn app:app; in another terminal: rowcall work app:jobs",
    "flask": "flask run; in another terminal: flask rowcall work",
    "plain": "python app.py; rowcall work app:jobs",
}


@answering_command("init", "Write a starter: an app, systemd units, a Compose file.")
@click.option("--framework", type=click.Choice(FRAMEWORKS), help="Default: what the folder or the environment shows.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=".", help="Default: this one.")
def init_command(framework: str | None, folder: Path) -> Answer:
    """Write a starter for the framework that is found: app.py, systemd units, a Dockerfile, a Compose file, and a
    .gitignore for the files of a queue.

    A Django project, which has a manage.py, gets no app.py. A file that exists is never changed.

    With --json: {"framework", "written": ["app.py", …], "kept": […]}.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    framework = framework or framework_of(folder)
    written, kept = [], []
    for name, text in starter(framework, folder).items():
        try:
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
            written.append(name)
        except FileExistsError:
            kept.append(name)

    def print_files() -> None:
        for name in written:
            show(f"written   {name}")
        for name in kept:
            hint = "; queues in SQLite files need *.db and *.db-* in it" if name == GITIGNORE else ""
            show(f"unchanged {name}: it exists already{hint}")
        show(f"next ({framework}): {_NEXT[framework]}")

    return Answer({"framework": framework, "written": written, "kept": kept}, print_files)
