"""What the answer of a target means for the job."""

from __future__ import annotations

import codecs
import re
from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

from rowcall.base.text import code_problem
from rowcall.domain.errors import PushFailed

ACCEPTED = 202
RETRIED = (408, 425, 429)
"""The statuses from 400 to 499 after which a delivery is tried again."""
LONGEST_DETAIL_BYTES = 4096
CODE_HEADER = "rowcall-error-code"
NOT_JSON_CODE, TOO_LARGE_CODE = "PUSH:ANSWER_NOT_JSON", "PUSH:ANSWER_TOO_LARGE"
_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json")


class AnswerHead(msgspec.Struct, frozen=True):
    """The status and the headers, by lower-case names, before the body is read."""

    status: int
    headers: dict[str, str]

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def has_result(self) -> bool:
        """Return whether the body is the result: only then it is read."""
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return self.is_success and _JSON_TYPE.fullmatch(media_type) is not None

    def result(self, body: bytes, largest: int) -> object:
        """Return the result."""
        if len(body) > largest:
            raise PushFailed(TOO_LARGE_CODE, f"the answer has more than {largest:,} bytes", final=True)
        if not body.strip():
            return None
        try:
            result: object = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise PushFailed(NOT_JSON_CODE, f"the answer is not JSON: {error}", final=True) from error
        return result

    def failure(self, body: bytes, now: float) -> PushFailed:
        """Return what is recorded of an answer that is not a success. `now` is in seconds since 1970."""
        given = self.headers.get(CODE_HEADER)
        code = given if given is not None and code_problem(given) is None else f"PUSH:HTTP_{self.status}"
        explanation = _start_of(body)
        if 300 <= self.status < 400:
            explanation = f"redirects are not followed; it leads to {self.headers.get('location', 'nowhere')[:200]}"
        final = 400 <= self.status < 500 and self.status not in RETRIED
        detail = f"the target answered with {self.status}" + (f": {explanation}" if explanation else "")
        return PushFailed(code, detail, final=final, retry_after=None if final else self.retry_after(now))

    def retry_after(self, now: float) -> float | None:
        """Return the header `Retry-After` in seconds: it has a number of them, or a date."""
        header = self.headers.get("retry-after", "").strip()
        if header.isascii() and header.isdigit():
            return float(header[:12])
        try:
            at = parsedate_to_datetime(header)
        except ValueError:
            return None
        return max(0.0, (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() - now)


def _start_of(body: bytes) -> str:
    """Return the text of a body, of a longer one its first bytes as far as they are whole characters."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    if len(body) <= LONGEST_DETAIL_BYTES:
        return decoder.decode(body, final=True).strip()
    return f"{decoder.decode(body[:LONGEST_DETAIL_BYTES]).strip()}…"
