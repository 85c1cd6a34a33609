"""The search of the documentation's site, as the browser runs it: the right page is among the first three."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.docs.built_site import built_site

pytestmark = pytest.mark.slow

SHOWN = 3
# what people type, and the pages that answer it: one of them must be shown
QUESTIONS = {
    "berlin": {"recipes", "schedules"},
    "cron time zone": {"recipes", "schedules"},
    "debounce": {"recipes", "flows"},
    "throttle": {"recipes", "flows"},
    "dead letter": {"recipes", "results"},
    "idempotent": {"recipes", "steps", "transactions"},
    "graceful shutdown": {"recipes", "workers"},
    "rate limit": {"recipes", "limits"},
    "exponential backoff": {"retries"},
    "retry only some errors": {"recipes", "retries"},
    "webhook": {"recipes", "without-a-worker", "attention"},
    "exactly once": {"transactions", "proof"},
    "database is locked": {"questions", "sqlite"},
    "unique jobs": {"flows"},
    "on_duplicate": {"flows"},
    "progress": {"tasks", "recipes"},
    "cancel running job": {"controlling"},
    "pause a queue": {"controlling"},
    "worker died": {"workers"},
    "stuck jobs": {"questions"},
    "prometheus": {"observability"},
    "kubernetes": {"deploy"},
    "docker compose": {"deploy"},
    "celery": {"from-celery"},
    "move to postgresql": {"sqlite-to-postgresql", "postgresql"},
    "mariadb": {"databases"},
    "which database": {"databases"},
    "pgbouncer": {"postgresql"},
    "pytest": {"testing"},
    "psql": {"recipes", "tables"},
    "human approval": {"steps", "recipes"},
    "fan out": {"recipes", "flows"},
    "encrypt arguments": {"payloads"},
    "large payload": {"payloads"},
    "backup": {"operations"},
    "retry failed jobs": {"controlling", "retries", "cli"},
    "several workers": {"workers", "operations"},
    "flask": {"web"},
    "rq": {"coming-from"},
    "dramatiq": {"coming-from"},
    "connection in transaction": {"transactions"},
    "delete old jobs": {"operations"},
    "alert slack": {"attention"},
    "error code": {"errors"},
    "sentry": {"errors"},
    "child process memory": {"tasks"},
    "claim by hand": {"without-a-worker"},
    "rename task": {"deploy"},
    "await result": {"results"},
    "readonly replica failover": {"high-availability"},
    "power cut": {"proof", "sqlite", "operations"},
    "dedupe": {"flows"},
    "dlq": {"recipes"},
    "saga": {"steps"},
    "fifo": {"limits"},
    "timezone": {"recipes", "schedules"},
    "outbox": {"transactions"},
    "delay job": {"tasks"},
    "priority": {"tasks"},
    "ModuleNotFoundError": {"questions"},
    "mysql": {"databases"},
    "uvx": {"getting-started"},
}
ASK = """async (questions) => {
  const { search } = JSON.parse(document.getElementById("__config").textContent);
  const index = await (await fetch("search/search_index.json")).json();
  const worker = new Worker(search);
  const said = (message) => new Promise((done) => {
    worker.onmessage = ({ data }) => done(data.data);
    worker.postMessage(message);
  });
  await said({ type: 0, data: { ...index, options: {} } });
  const answers = {};
  for (const question of questions) {
    const { items } = await said({ type: 2, data: question });
    answers[question] = items.map(([first]) => first.location.replace(/\\.html.*/, ""));
  }
  return answers;
}"""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def test_the_search_of_the_site_answers(browser: Browser, shared_folder: Path) -> None:
    site = built_site(shared_folder / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with closing(browser.new_page()) as page:
            page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
            answers = page.evaluate(ASK, list(QUESTIONS))
        server.shutdown()
    first = {question: answers[question][:SHOWN] for question in QUESTIONS}
    assert {question: shown for question, shown in first.items() if not QUESTIONS[question] & set(shown)} == {}
