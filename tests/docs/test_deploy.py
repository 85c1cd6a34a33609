"""The pages about running Rowcall: their YAML, and the query that scales workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import psycopg
import yaml

from rowcall import Rowcall
from tests.docs.pages import DOCS, PAGES, blocks


def test_blocks_of_yaml_can_be_read() -> None:
    texts = [block.text for page in PAGES for block in blocks(page) if block.language == "yaml"]
    assert len(texts) >= 3
    for text in texts:
        assert isinstance(yaml.safe_load(text), dict)


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
