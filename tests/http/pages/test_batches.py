from __future__ import annotations

from rowcall import Rowcall
from tests.http.client import Client


def test_a_batch_is_sealed_cancelled_and_retried_on_its_page(client: Client, filled: Rowcall) -> None:
    assert "No batches" in client.page("/batches")

    @filled.task(max_attempts=1)
    def load(page: int) -> None: ...

    @filled.task
    def report() -> None: ...

    batch = filled.batch("import <42>", on_finish=report)
    batch.add(load.using(queue="loads").bind(1), load.using(queue="loads").bind(2))
    (claimed,) = filled.claim("w", queues=["loads"])
    filled.fail(claimed, "TEST:CODE")
    page, listed = f"/batches/{batch.id}", client.page("/batches")
    assert "import &lt;42&gt;" in listed
    assert "1 of 2" in listed
    client.submit(page, f"{page}/seal")
    assert f"Batch {batch.id}: Sealed" in client.page(page)
    client.submit(page, f"{page}/cancel")
    assert "1 job cancelled, or asked to stop" in client.page(page)
    assert f"/jobs/{batch.counts().finish_job}" in client.page(page)
    client.submit(page, f"{page}/retry")
    assert "1 job will run again" in client.page(page)
    assert "1 of 2 ended · sealed" in client.page(page)
    assert client.page(f"/jobs?batch={batch.id}").count("data-row") == 2
