from __future__ import annotations

from datetime import timedelta

import pytest

from rowcall import InvalidOption, Retention, Status
from rowcall.domain.retention import Rules, retention_from_text, retention_to_text

DAY_SECONDS = 86_400.0


def test_by_default_failed_jobs_are_kept_longest() -> None:
    rule = Retention()
    assert [rule.keep_seconds(status) for status in ("succeeded", "failed", "cancelled")] == [
        30 * DAY_SECONDS,
        90 * DAY_SECONDS,
        30 * DAY_SECONDS,
    ]


def test_durations_are_seconds_or_timedeltas_or_for_ever() -> None:
    rule = Retention(succeeded=timedelta(days=7), failed=None, cancelled=90)
    assert (rule.succeeded, rule.failed, rule.cancelled) == (7 * DAY_SECONDS, None, 90)
    assert rule == Retention(7 * DAY_SECONDS, None, timedelta(seconds=90))


@pytest.mark.parametrize("wrong", [-1, timedelta(seconds=-1), float("nan"), "30 days", True, [1]])
@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_a_wrong_duration_is_refused_by_name(status: str, wrong: object) -> None:
    with pytest.raises(InvalidOption, match=status):
        Retention(**{status: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", ["mail", ["mail"], {"mail": 30}, {7: Retention()}, {"mail": Retention(queues={"x": Retention()})}, None]
)
def test_queues_are_names_and_plain_rules(wrong: object) -> None:
    with pytest.raises(InvalidOption, match="queues"):
        Retention(queues=wrong)  # type: ignore[arg-type]


def test_the_rule_of_a_task_precedes_that_of_its_queue() -> None:
    rules = Rules(Retention(succeeded=1, queues={"mail": Retention(succeeded=2)}), {"audit": Retention(succeeded=None)})
    assert rules.keep_seconds(Status.SUCCEEDED, "default", "send") == 1
    assert rules.keep_seconds(Status.SUCCEEDED, "mail", "send") == 2
    assert rules.keep_seconds(Status.SUCCEEDED, "mail", "audit") is None
    assert rules.keep_seconds(Status.FAILED, "mail", "audit") == 90 * DAY_SECONDS


@pytest.mark.parametrize(
    "rule",
    [
        Retention(),
        Retention(0, None, 0.5),
        Retention(None, None, None),
        Retention(queues={"mail": Retention(succeeded=None), "ä": Retention(failed=0)}),
    ],
)
def test_a_rule_is_read_back_as_it_was_written(rule: Retention) -> None:
    assert retention_from_text(retention_to_text(rule)) == rule


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1, 2]", "[1, 2, 3, 4]", '["a", 1, 2]', "null", "[", '{"succeeded":-1,"failed":1,"cancelled":1}'],
)
def test_another_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (whatever it says)
        retention_from_text(text)


def test_an_unknown_field_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidOption, match=r"^unknown option 'succeded' \(did you mean 'succeeded'\?\)$"):
        Retention(succeded=5)  # type: ignore[call-arg]
