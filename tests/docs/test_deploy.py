"""The pages about running Rowcall: their YAML, and the query that scales workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import psycopg
import yaml

from rowcall import Rowcall
from rowcall.cli.starter import starter
from tests.docs.pages import DOCS, PAGES, blocks


def test_blocks_of_yaml_can_be_read() -> None:
    texts = [block.text for page in PAGES for block in blocks(page) if block.language == "yaml"]
    assert len(texts) >= 3
    for text in texts:
        assert isinstance(yaml.safe_load(text), dict)


def test_the_files_of_the_page_are_those_of_rowcall_init(tmp_path: Path) -> None:
    written = starter("plain", tmp_path)
    on_page = [block.text for block in blocks(DOCS / "deploy.md")]
    (compose,) = [text for text in on_page if text.startswith("services:")]
    assert yaml.safe_load(compose) == yaml.safe_load(written["compose.yaml"])
    (image,) = [text for text in on_page if text.startswith("FROM ")]
    assert _words_of(image) == _words_of(written["Dockerfile"])
    (unit,) = [text for text in on_page if "[Service]" in text]
    (name,) = [name for name in written if name.endswith("-worker.service")]
    assert _settings_of(unit) == _settings_of(written[name])


def _words_of(image: str) -> list[str]:
    """The instructions of a Dockerfile, and the image that it is made from."""
    lines = [line.split() for line in image.splitlines()]
    return [line[0] for line in lines] + lines[0][1:]


def _settings_of(unit: str) -> set[str]:
    """The lines of a unit that are the same on every machine."""
    of_machine = ("Description", "User", "WorkingDirectory", "EnvironmentFile", "ExecStart")
    lines = [line for line in unit.splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(set(lines))
    return {line for line in lines if not line.startswith(of_machine)}


def test_the_query_for_keda_counts_jobs_that_need_a_worker(postgres_url: str) -> None:
    texts = [block.text for block in blocks(DOCS / "deploy.md") if "ScaledObject" in block.text]
    query = cast("Mapping[str, str]", yaml.safe_load(texts[0])["spec"]["triggers"][0]["metadata"])["query"]
    with Rowcall(postgres_url) as jobs, psycopg.connect(postgres_url, autocommit=True) as connection:

        def needed() -> int:
            row = connection.execute(query.encode()).fetchone()
            assert row is not None
            return int(row[0])

        assert needed() == 0
        jobs.enqueue("later", delay=3600)
        jobs.add_schedule("daily", "report", cron="0 9 * * *")
        assert needed() == 0
        jobs.enqueue("now")
        jobs.enqueue("running")
        assert jobs.claim("by-hand", limit=1)
        connection.execute("INSERT INTO rowcall_job (type) VALUES ('by_sql')")  # scheduled, and due
        connection.execute("UPDATE rowcall_schedule SET next_run_at = clock_timestamp()")
        assert needed() == 4
