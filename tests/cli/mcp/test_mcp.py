"""`rowcall mcp`, with a real client over standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from rowcall import Rowcall
from tests.cli.conftest import APP

READ = {"attention", "queue_waits", "why", "jobs", "job", "errors", "stats", "limits", "schedules", "workers"}
CHANGES = {"retry", "cancel", "delete", "reschedule", "set_priority", "pause", "resume", "set_limit", "reset_limit"}
SECRET = "hunter2"
SCRUBBED = APP.replace(
    'Rowcall("sqlite:///queue.db")',
    f'Rowcall("sqlite:///queue.db", scrub=lambda text: text.replace("{SECRET}", "***"))',
)

Call = Callable[..., Awaitable[Any]]


def converse(words: tuple[str, ...], talk: Callable[[Client, Call], Awaitable[None]]) -> None:
    """Start the command, and talk to it; `call` returns the answer of a tool, or raises what it says is wrong."""

    async def main() -> None:
        # as a host of assistants starts it
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "rowcall", "mcp", *words], cwd=os.getcwd(), env=dict(os.environ)
        )
        async with Client(stdio_client(command)) as client:

            async def call(name: str, /, **arguments: object) -> Any:
                answer = await client.call_tool(name, arguments)
                [content] = answer.content
                said = getattr(content, "text", "")
                if answer.is_error:
                    raise ValueError(said)
                return json.loads(said)

            await talk(client, call)

    anyio.run(main)


def test_tools_only_look_by_default(queue: Rowcall, app: Path) -> None:
    app.write_text(SCRUBBED)
    job = queue.enqueue("hello", {"name": SECRET}, max_attempts=1)
    queue.fail(queue.claim("worker-1", limit=1)[0], "TIMEOUT:UPSTREAM_API", f"token {SECRET}")

    async def talk(client: Client, call: Call) -> None:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {*READ, "search_docs"}
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
        answers = [await call(name) for name in ("attention", "queue_waits", "jobs", "errors", "stats", "limits")]
        answers += [await call("schedules"), await call("workers"), await call("why", id=job.id)]
        everything = await call("job", id=job.id)
        assert everything["job"]["payload"] == {"name": "***"}
        assert everything["timeline"][0]["event"] == "ENQUEUED"
        assert answers[3]["errors"][0]["sample"] == "token ***"
        assert SECRET not in json.dumps([*answers, everything])
        with pytest.raises(ValueError, match="job 99 does not exist"):
            await call("why", id=99)
        with pytest.raises(ValueError, match="limit must be from 1 to 100"):
            await call("jobs", limit=1000)
        found = (await call("search_docs", query="pause a queue"))["sections"]
        assert "controlling.md" in [section["page"] for section in found]
        assert (await call("search_docs", query="zzz qqq"))["sections"] == []

    converse(("app:jobs",), talk)


def test_a_change_takes_two_calls(queue: Rowcall) -> None:
    first, second = queue.enqueue("hello", {"name": "Ann"}), queue.enqueue("hello", {"name": "Bob"})
    other = queue.enqueue("hello", {"name": "Cem"}, queue="mail")

    async def talk(client: Client, call: Call) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} >= {*READ, *CHANGES, "confirm"}
        shown = await call("cancel", queue="default", reason="tests")
        assert (shown["would"], shown["count"]) == ("cancel 2 jobs, reason 'tests'", 2)
        assert [job["id"] for job in shown["jobs"]] == [second.id, first.id]
        assert queue.get(first.id).status == "pending"
        queue.cancel(second.id)  # in between, by another process
        late = queue.enqueue("hello", {"name": "Dan"})  # not shown, so it stays
        done = await call("confirm", token=shown["token"])
        assert (done["changed"], done["left_out"]) == (1, 1)
        assert [queue.get(job.id).status for job in (first, second, other, late)] == [
            *("cancelled", "cancelled", "pending", "pending")
        ]
        assert [event.actor for event in queue.timeline(first.id)][-1].startswith("mcp for ")  # type: ignore[union-attr]
        with pytest.raises(ValueError, match="token is unknown, used or expired"):
            await call("confirm", token=shown["token"])

        pause = await call("pause", queue="mail")
        assert pause["waiting_jobs"] == 1
        assert (await call("confirm", token=pause["token"])) == {"is_paused": True}
        resume = await call("resume", queue="mail")
        queue.resume("mail")
        with pytest.raises(ValueError, match="state that has changed; nothing was done: resume queue mail"):
            await call("confirm", token=resume["token"])
        assert (await call("resume", queue="mail"))["token"] is None  # there is nothing to do

        again = await call("retry", ids=[first.id])
        assert (await call("confirm", token=again["token"]))["changed"] == 1
        assert (await call("delete", queue="mail", status="failed"))["count"] == 0
        for name, arguments, problem in (
            ("retry", {}, "give ids, or a filter"),
            ("retry", {"ids": [late.id]}, "cannot retry|is pending"),
            ("delete", {"queue": "mail", "status": "running"}, "status must be one of"),
            ("pause", {}, "the name of a queue, or task"),
            ("set_limit", {"name": "nothing", "concurrency": 1}, "is not the name of a limit"),
            ("change_schedule", {"name": "nothing", "action": "pause"}, "is not the name of a schedule"),
        ):
            with pytest.raises(ValueError, match=problem):
                await call(name, **arguments)
        assert queue.get(late.id).status == "pending"

    converse(("app:jobs", "--allow-changes"), talk)


def test_without_the_library_it_says_what_to_install(queue: Rowcall) -> None:
    hidden = "import sys; sys.modules['mcp.server'] = None; from rowcall.cli.main import main; main()"
    command = [sys.executable, "-c", hidden, "mcp", "app:jobs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "needs mcp: pip install 'rowcall[mcp]'" in done.stderr
