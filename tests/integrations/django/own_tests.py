"""Runs Django's own tests of its task backends against `RowcallBackend`.

    python -m tests.integrations.django.own_tests FOLDER

FOLDER is `tests/tasks` of Django's source. The tests are copied, with three changes: another backend, test cases that
may use a database, and before Django 6 the names of the package `django-tasks`. It prints which tests are left out.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import django

BACKEND = "tests.integrations.django.own_backends"
CHANGES = [
    (r"django\.tasks\.backends\.(dummy|immediate)\.", f"{BACKEND}."),
    (r"from django\.tasks\.backends\.(dummy|immediate) import", f"from {BACKEND} import"),
    (r"\bSimpleTestCase\b", "TransactionTestCase"),
    (r"    available_apps = \[\]\n", ""),
]
BEFORE_6 = [
    (r'Logs\("django\.tasks"', 'Logs("django_tasks"'),
    (r"\bfrom django\.tasks", "from django_tasks"),
    (r"\bimport InvalidTask$", "import InvalidTaskError as InvalidTask"),
    (r"^    InvalidTask,$", "    InvalidTaskError as InvalidTask,"),
    (r"\bimport InvalidTask,", "import InvalidTaskError as InvalidTask,"),
    (r"^    InvalidTaskBackend,$", "    InvalidTaskBackendError as InvalidTaskBackend,"),
]

CAPABLE = "expects that the backend cannot do what ours can"
ON_A_LOOP = "calls sync methods on an event loop, which Django's connections refuse"
MEMORY = "changes a result in the memory of Django's backend"
BEFORE = "tests what the package django-tasks does not have, or words differently"
LEFT_OUT = {
    "test_custom_backend": "tests backends that it defines itself",
    "test_dummy_backend.DummyBackendTestCase.test_get_missing_result": ON_A_LOOP,
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result": MEMORY,
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result_async": MEMORY,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": CAPABLE,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": CAPABLE,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": CAPABLE,
    "test_tasks.TaskTestCase.test_get_missing_result": ON_A_LOOP,
    "test_tasks.TaskTestCase.test_refresh_result": ON_A_LOOP,
}
LEFT_OUT_BEFORE_6 = {
    "test_dummy_backend.DummyBackendTestCase.test_validate_disallowed_async_task": BEFORE,
    "test_tasks.TaskTestCase.test_pickle_task": BEFORE,
    "test_tasks.TaskTestCase.test_pickle_task_result": BEFORE,
    "test_tasks.TaskTestCase.test_run_after_in_decorator": BEFORE,
    "test_tasks.TaskTestCase.test_unpickle_arbitrary_string": BEFORE,
    "test_tasks.TaskTestCase.test_unpickle_non_task_object": BEFORE,
}


def main(folder: Path) -> int:
    with tempfile.TemporaryDirectory() as made:
        copy(folder, Path(made) / "tasks")
        sys.path.insert(0, made)
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.integrations.django.settings"
        django.setup()
        from tests.integrations.django.own_runner import Runner

        runner = Runner(reasons(), interactive=False)
        failures = int(runner.run_tests(["tasks"]))
    for name, reason in reasons().items():
        print(f"left out: {name}: {reason}")
    print(f"Django {django.__version__}: ran {runner.ran} of its tests on {runner.database}, {failures} failed")
    unknown = reasons().keys() - runner.left_out - {path.stem for path in folder.glob("*.py")}
    if unknown:
        print(f"not among its tests: {', '.join(sorted(unknown))}")
    return int(bool(failures or unknown or not runner.ran))


def reasons() -> dict[str, str]:
    """Return why tests, or whole modules of them, are left out."""
    return {**LEFT_OUT, **(LEFT_OUT_BEFORE_6 if django.VERSION < (6,) else {})}


def copy(folder: Path, to: Path) -> None:
    shutil.copytree(folder, to)
    for path in to.glob("*.py"):
        if path.stem in reasons():
            path.unlink()
            continue
        text = path.read_text(encoding="utf-8")
        for pattern, replacement in [*CHANGES, *(BEFORE_6 if django.VERSION < (6,) else [])]:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
