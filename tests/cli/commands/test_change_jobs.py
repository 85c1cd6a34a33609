"""`rowcall retry`, `cancel`, `delete`, `reschedule` and `set-priority`: by ids, and by a filter."""

from __future__ import annotations

import json

import pytest

from rowcall import Context, Rowcall, Status
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal


def test_retry_says_what_became_of_each(run: Run, queue: Rowcall) -> None:
    finished, waiting = queue.enqueue("hello"), queue.enqueue("hello")
    queue.cancel(finished.id)
    result = run("retry", "app:jobs", str(finished.id), str(waiting.id), "99")
    assert result.exit_code == 1
    assert result.stdout == f"job {finished.id} is pending again: 10 attempts left (0 of 10 used)\n"
    assert result.stderr.splitlines() == [
        f"error: job {waiting.id} is pending: it will run without a retry",
        "error: job 99 does not exist",
    ]
    assert queue.get(finished.id).status == "pending"


def test_retry_from_a_step(run: Run, queue: Rowcall) -> None:
    def handler(ctx: Context) -> None:
        for name in ("find", "charge"):
            ctx.step(name, str)

    queue.task(name="steps")(handler)
    job = queue.enqueue("steps")
    queue.drain()
    assert run("retry", "app:jobs", str(job.id), "--from-step", "charge").exit_code == 0
    assert [step.name for step in queue.steps(job)] == ["find"]
    wrong = run("retry", "app:jobs", str(job.id), "--from-step", "none")
    assert wrong.exit_code == 2
    assert f"from_step must be a recorded step of job {job.id}, got 'none'; it has 'find'" in " ".join(
        wrong.stderr.split()
    ) or "--from-step must be a recorded step" in " ".join(wrong.stderr.split())
    assert run("retry", "app:jobs", "--queue", "mail", "--from-step", "charge").exit_code == 2


def test_retry_says_how_many_attempts_a_failed_job_has_again(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("broken", max_attempts=1)
    queue.fail(queue.claim("worker-1", limit=1)[0], "TEST:BROKEN")
    assert run("retry", "app:jobs", str(job.id)).stdout == (
        f"job {job.id} is pending again: 1 attempt left (1 of 2 used)\n"
    )


def test_a_finished_job_cannot_be_cancelled(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    queue.cancel(job.id)
    result = run("cancel", "app:jobs", str(job.id))
    assert result.stderr == f"error: job {job.id} has already been cancelled\n"


def test_cancel_keeps_the_reason(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    result = run("cancel", "app:jobs", str(job.id), "--reason", "not needed")
    assert (result.exit_code, result.stdout) == (0, f"job {job.id} cancelled\n")
    assert queue.get(job.id).error_detail == "not needed"


def test_a_running_job_is_asked_to_end(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    assert queue.claim("worker-1", limit=1)
    result = run("cancel", "app:jobs", str(job.id))
    assert (result.exit_code, result.stdout) == (0, f"job {job.id} is running on worker-1: it was asked to stop\n")
    assert queue.timeline(job.id)[-1].event == "CANCEL_REQUESTED"


def test_delete_in_json(run: Run, queue: Rowcall) -> None:
    gone, running = queue.enqueue("hello"), queue.enqueue("hello", priority=1)
    assert [job.id for job in queue.claim("worker-1", limit=1)] == [running.id]
    result = run("delete", "app:jobs", "--json", str(gone.id), str(running.id), "99")
    assert result.exit_code == 1
    outcomes = json.loads(result.stdout)["jobs"]
    assert [(job["id"], job["ok"], job["status"]) for job in outcomes] == [
        (gone.id, True, None),
        (running.id, False, "running"),
        (99, False, None),
    ]
    assert outcomes[0]["error"] is None
    assert outcomes[2]["error"] == "job 99 does not exist"
    assert result.stderr == ""
    assert queue.stats().total == 1


def test_reschedule_and_set_priority(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    result = run("reschedule", "app:jobs", str(job.id), "--run-at", "2030-01-02T09:00+01:00")
    assert result.stdout == f"job {job.id} is scheduled for 2030-01-02 08:00:00.000 UTC\n"
    result = run("set-priority", "app:jobs", str(job.id), "99", "--priority", "-5", "--json")
    assert result.exit_code == 1
    assert [one["ok"] for one in json.loads(result.stdout)["jobs"]] == [True, False]
    assert (queue.get(job.id).priority, queue.get(job.id).status) == (-5, "scheduled")


def test_complete(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("approval", delay=60)
    result = run("complete", "app:jobs", str(job.id), "--result", '{"approved": true}')
    assert result.stdout == f"job {job.id} completed\n"
    assert (queue.get(job.id).status, queue.get(job.id).result) == ("succeeded", {"approved": True})
    assert run("complete", "app:jobs", str(job.id)).exit_code == 1


def test_a_result_that_does_not_fit_one_task_may_fit_another(run: Run, queue: Rowcall) -> None:
    before, misfit, after = (queue.enqueue(task, delay=60).id for task in ("approval", "hello", "approval"))
    result = run("complete", "app:jobs", str(before), str(misfit), str(after), "--result", "7", "--json")
    assert result.exit_code == 1
    outcomes = json.loads(result.stdout)["jobs"]
    assert [(job["id"], job["ok"]) for job in outcomes] == [(before, True), (misfit, False), (after, True)]
    assert outcomes[1]["error"].startswith("hello: the result is a value that does not fit its annotation")
    assert queue.get(misfit).status == "scheduled"


def test_edit(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello", {"name": "Ann"}, delay=60, tags=["old"])
    result = run(
        "edit", "app:jobs", str(job.id), '{"name": "Bob"}', "--tag", "new", "--priority", "3", "--timeout", "5m"
    )
    assert result.stdout == f"job {job.id} is scheduled, with new arguments, tags, priority, timeout\n"
    found = queue.get(job.id)
    assert (found.payload, found.tags, found.priority, found.timeout) == ({"name": "Bob"}, ("new",), 3, 300.0)
    result = run("edit", "app:jobs", str(job.id), "--no-tags", "--delay", "0", "--json")
    assert json.loads(result.stdout) == {"jobs": [{"id": job.id, "ok": True, "status": "pending", "error": None}]}
    assert (queue.get(job.id).tags, queue.timeline(job.id)[-1].event) == ((), "EDITED")
    queue.cancel(job.id)
    result = run("edit", "app:jobs", str(job.id), "--priority", "1")
    assert (result.exit_code, result.stderr.startswith(f"error: job {job.id} ")) == (1, True)


def test_many_by_a_filter(run: Run, queue: Rowcall) -> None:
    for _ in range(3):
        queue.enqueue("hello", queue="mail")
    other = queue.enqueue("hello")
    assert run("cancel", "app:jobs", "--queue", "mail", "--limit", "1").stdout == "1 job cancelled, or asked to stop\n"
    assert json.loads(run("cancel", "app:jobs", "--queue", "mail", "--json").stdout) == {"count": 2}
    retried = run("retry", "app:jobs", "--status", "cancelled", "--error-code", "CANCELLED:*", "--rate", "1")
    assert retried.stdout == "3 jobs will run again\n"
    assert queue.stats().by_status == {
        **{status.value: 0 for status in Status},
        "pending": 2,
        "scheduled": 2,
    }
    assert queue.get(other.id).status == "pending"


TIME = "write it as 2026-01-02T09:00Z, or with +01:00 instead of Z"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["cancel"], "give job ids, or a filter such as --queue"),
        (["cancel", "1", "--queue", "mail"], "give job ids or --queue, not both"),
        (["retry", "1", "--rate", "3"], "give job ids or --rate, not both"),
        (["cancel", "--limit", "5"], "--limit alone matches every job; add --status, --queue, --type or --tag"),
        (
            ["cancel", "--created-before", "2100-01-01T00:00Z"],
            "cancel: this matches every job; add a filter such as --queue, or pass --all",
        ),
        (
            ["cancel", "--status", "failed"],
            "--status must be one of blocked, scheduled, pending, running, got 'failed'",
        ),
        (["retry", "--status", "pending"], "--status must be one of succeeded, failed, cancelled, got 'pending'"),
        (["retry", "--rate", "5"], "--rate alone matches every job; add --status, --queue, --type or --tag"),
        (
            ["retry", "--queue", "mail", "--rate", "0"],
            "--rate must be a number of jobs per second, up to 1000, got 0.0",
        ),
        (["reschedule", "1"], "give --delay or --run-at"),
        (
            ["reschedule", "1", "--delay", "5m", "--run-at", "2030-01-01T00:00Z"],
            "give --delay or --run-at, not both",
        ),
        (["reschedule", "1", "--run-at", "tomorrow"], f"--run-at: 'tomorrow' is not a time; {TIME}"),
        (["reschedule", "1", "--run-at", "2030-01-01"], f"--run-at: '2030-01-01' has no time zone; {TIME}"),
        (["complete", "1", "--result", "{"], "--result must be JSON: Input data was truncated"),
        (["edit", "1"], "edit needs something to change: pass arguments or options"),
        (["edit"], "give the id of one job, and its new arguments, if any, as one JSON object"),
        (["edit", "1", "{}", "{}"], "give the id of one job, and its new arguments, if any, as one JSON object"),
        (["edit", "x", "{}"], "'x' is not a job id"),
        (["edit", "1", '{"nome": 1}'], "hello: unexpected argument 'nome' (did you mean 'name'?)"),
        (["edit", "1", "--tag", "a", "--no-tags"], "give --tag or --no-tags, not both"),
        (
            ["edit", "1", "--priority", "4000000000"],
            "--priority must be a whole number from -2147483648 to 2147483647, got 4000000000",
        ),
        (["set-priority", "1"], "Missing option '--priority'."),
        (
            ["set-priority", "1", "--priority", "4000000000"],
            "--priority must be a whole number from -2147483648 to 2147483647, got 4000000000",
        ),
        (["pause"], "give a queue, or a task with --task"),
        (["pause", "mail", "other"], "give one queue, got 'mail', 'other'"),
        (
            ["resume", "mail", "--task", "hello"],
            "give a queue or --task, not both; got the queue 'mail'",
        ),
        (["jobs", "--cursor", "garbage"], "--cursor must be the next_cursor of an earlier page, got 'garbage'"),
        (
            ["stats", "--window", "0"],
            "--window must be from 1 second to 30 days, for which history is kept, got 0.0",
        ),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_wrong_use_is_reported_under_the_usage(run: Run, queue: Rowcall, words: list[str], problem: str) -> None:
    job = queue.enqueue("hello")
    result = run(words[0], "app:jobs", *words[1:])
    assert (result.exit_code, result.stdout) == (2, "")
    usage, said = result.stderr.splitlines()
    assert usage.startswith(f"Usage: rowcall {words[0]} [OPTIONS] ")
    assert said == f"error: {problem}"
    assert queue.get(job.id) == job


def test_who_sits_at_a_terminal_is_asked(queue: Rowcall) -> None:
    job = queue.enqueue("hello", queue="mail")
    for answer, code, said, status in (("n", 1, "nothing was changed", "pending"), ("y", 0, "1 job", "cancelled")):
        with Terminal("cancel", "app:jobs", "--queue", "mail") as terminal:
            terminal.wait_for("cancel all jobs with --queue mail (now 1)?")
            terminal.type(f"{answer}\n")
            assert terminal.wait() == code
        assert said in terminal.text.splitlines()[-1]
        assert queue.get(job.id).status == status


def test_a_person_is_asked_before_a_job_that_has_succeeded_runs_again(queue: Rowcall, run: Run) -> None:
    done, failed = queue.enqueue("hello", {"name": "Ann"}), queue.enqueue("broken", max_attempts=1)
    queue.complete(done.id, "hello Ann")
    queue.fail(queue.claim("worker-1", limit=1)[0], "TEST:BROKEN")
    words = ("retry", "app:jobs", str(done.id), str(failed.id))
    with Terminal(*words) as terminal:
        terminal.wait_for(f"job {done.id} has succeeded; run it again, and lose its result?")
        terminal.type("n\n")
        assert terminal.wait() == 1
    assert (queue.get(done.id).result, queue.get(failed.id).status) == ("hello Ann", "failed")
    with Terminal("retry", "app:jobs", str(failed.id)) as terminal:  # no question
        assert terminal.wait() == 0
    with Terminal(*words, "--yes") as terminal:
        assert terminal.wait() == 1  # the other one is pending
    assert queue.get(done.id).status == "pending"


def test_what_would_be_refused_is_not_asked(queue: Rowcall) -> None:
    with Terminal("cancel", "app:jobs", "--created-before", "2100-01-01T00:00Z") as terminal:
        assert terminal.wait() == 2
    assert "this matches every job" in terminal.text
    assert "(now " not in terminal.text


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["retry", "--status", "cancelled"], "retry all jobs with --status cancelled (now 3)?"),
        (["retry", "--type", "hello"], "retry all jobs with --type hello (now 0)?"),
        (["cancel", "--queue", "mail", "--limit", "1"], "cancel all jobs with --queue mail --limit 1 (now 1)?"),
        (["cancel", "--tag", "nightly"], "cancel all jobs with --tag nightly (now 2)?"),
    ],
)
def test_the_question_says_how_many_there_are(queue: Rowcall, words: list[str], question: str) -> None:
    for _ in range(3):
        queue.cancel(queue.enqueue("hello").id)
    for _ in range(2):
        queue.enqueue("hello", queue="mail", tags=["nightly"])
    with Terminal(*words, "app:jobs") as terminal:
        terminal.wait_for(question)
        terminal.type("n\n")
        assert terminal.wait() == 1


@pytest.mark.parametrize("command", ["delete", "retry"])
def test_a_running_job_is_left_alone_and_what_to_do_is_said(run: Run, queue: Rowcall, command: str) -> None:
    job = queue.enqueue("hello")
    assert queue.claim("worker-1", limit=1)
    result = run(command, "app:jobs", str(job.id))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: job {job.id} is running: wait for it to end, or cancel it first\n"
    told = json.loads(run(command, "app:jobs", str(job.id), "--json").stdout)["jobs"][0]["error"]
    assert f"error: {told}\n" == result.stderr


def test_all_that_match_any_filter(run: Run, queue: Rowcall) -> None:
    first, second = queue.enqueue("hello", {"customer": 7}), queue.enqueue("hello", {"customer": 8})
    listed = json.loads(run("jobs", "app:jobs", "--payload", '{"customer": 7}', "--json").stdout)
    assert ([job["id"] for job in listed["jobs"]], listed["partial"]) == ([first.id], False)
    moved = run("reschedule", "app:jobs", "--delay", "1h", "--payload", '{"customer": 7}', "--json")
    assert json.loads(moved.stdout) == {"count": 1}
    changed = run("set-priority", "app:jobs", "--priority", "3", "--status", "pending", "--status", "scheduled")
    assert changed.stdout == "2 jobs with a new priority\n"
    assert run("delete", "app:jobs", "--created-before", "2001-01-01T00:00Z", "--json").stdout == '{"count":0}\n'
    shown = run("jobs", "app:jobs", "--order", "oldest", "--status", "pending", "--status", "scheduled", "--json")
    assert [job["id"] for job in json.loads(shown.stdout)["jobs"]] == [first.id, second.id]
    assert run("delete", "app:jobs", "--limit", "1").exit_code == 2
    assert run("delete", "app:jobs", "--all").stdout == "2 jobs deleted\n"


@pytest.mark.parametrize(
    "words", [["--payload", "7"], ["--created-after", "today"], ["--created-after", "2001-01-01T00:00"], ["--key", "a"]]
)
def test_what_is_no_filter_is_wrong_use(run: Run, queue: Rowcall, words: list[str]) -> None:
    for command in (["jobs"], ["cancel"]):
        assert run(*command, "app:jobs", *words).exit_code == 2
