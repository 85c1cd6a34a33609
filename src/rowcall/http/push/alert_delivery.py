"""Sends an alert to the URL of `Alerts`: a POST that is signed like a pushed job, with a text that chats show."""

from __future__ import annotations

import msgspec

from rowcall.base.clock import Clock
from rowcall.domain.alerts import Alert, Alerts
from rowcall.domain.errors import PushFailed
from rowcall.domain.push import PushTarget
from rowcall.domain.push_signatures import ID_HEADER, TIMESTAMP_HEADER, sign
from rowcall.http.push.answers import LONGEST_DETAIL_BYTES
from rowcall.http.push.checked_network import CheckedNetwork
from rowcall.http.push.delivery import TIMEOUT_CODE, answer_head, network_errors, posted, read

_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


async def post(alerts: Alerts, alert: Alert, seconds: float, clock: Clock) -> None:
    """Send an alert, or raise `PushFailed`."""
    assert alerts.url is not None
    body, now = body_of(alert), int(clock.wall())
    headers = {ID_HEADER: alert.id, TIMESTAMP_HEADER: str(now)}
    if alerts.secrets:
        headers = sign(alerts.secrets, alert.id, now, body)
    try:
        with network_errors():
            await clock.within(_send(PushTarget.of(alerts.url), headers, body, clock), seconds)
    except TimeoutError:
        raise PushFailed(TIMEOUT_CODE, f"the target did not answer within {seconds:g} s") from None


def body_of(alert: Alert) -> bytes:
    """Return the JSON: the form of Standard Webhooks, and a text as Slack shows it."""
    return msgspec.json.encode(
        {
            "type": f"finding.{alert.event}",
            "timestamp": alert.at,
            "data": alert.to_dict(),
            "text": alert.text.translate(_ESCAPED),
        }
    )


async def _send(target: PushTarget, headers: dict[str, str], body: bytes, clock: Clock) -> None:
    network = CheckedNetwork(lambda _: None, clock)  # the app names the URL, not a job
    async with posted(target, headers, body, None, network) as response:
        answer = answer_head(response)
        if not answer.is_success:
            raise answer.failure(await read(response.aiter_stream(), LONGEST_DETAIL_BYTES), clock.wall())
