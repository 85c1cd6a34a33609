"""graphile-worker in Node, with what its page on performance says makes it fastest: a local queue, batched completion.

It deletes the jobs that are done. npm installs it at the first run, into a folder below `build`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import psycopg

from benchmarks.contestants import Begin, Count
from benchmarks.noop import ARGUMENTS, MANY

VERSION = "0.17"
LEFT = "select count(*) from graphile_worker._private_jobs"
_PROGRAM = Path(__file__).with_suffix(".mjs")
_FOLDER = Path(__file__).resolve().parents[2] / "build" / f"graphile-worker-{VERSION}"


def missing() -> str | None:
    """Install it, or return why it cannot run here."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "graphile-worker is left out: there is no Node here (Debian: apt install nodejs npm)"
    if not (_FOLDER / "node_modules" / "graphile-worker").exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-save", "--prefix", str(_FOLDER), f"graphile-worker@{VERSION}"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return f"graphile-worker is left out: npm cannot install it: {ran.stderr.strip()[-300:]}"
    return None


async def fill(url: str, jobs: int) -> None:
    process = await _start(url)  # it makes the tables
    process.kill()
    await process.wait()
    with psycopg.connect(url, autocommit=True) as database:
        for start in range(0, jobs, MANY):
            database.execute(
                "select graphile_worker.add_job('noop', %s::json) from generate_series(1, %s)",
                (json.dumps(ARGUMENTS), min(MANY, jobs - start)),
            )


async def drain(url: str, begin: Begin, count: Count) -> None:
    process = await _start(url)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        begin()
        process.stdin.write(b"\n")
        await process.stdin.drain()
        async for line in process.stdout:
            count(int(line))
    finally:
        process.kill()


async def _start(url: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        "node", str(_PROGRAM), str(_FOLDER), url, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    if await process.stdout.readline() != b"ready\n":
        raise RuntimeError(f"graphile-worker ended with {await process.wait()}")
    return process
