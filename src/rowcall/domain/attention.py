"""What needs attention: the values of `jobs.attention()`."""

from datetime import datetime
from enum import StrEnum

from rowcall.domain.value import Value


class Severity(StrEnum):
    """How urgent a finding is. It is a `str`.

    CRITICAL: jobs do not run, or fail, now. WARNING: look at it before it becomes critical.
    """

    CRITICAL = "critical"
    WARNING = "warning"


class Finding(Value, frozen=True, kw_only=True):
    """Something that needs attention. `code` names its kind, `message` is one sentence, `advice` says what to do.

    `evidence` has the numbers, the names, and the ids of some jobs behind it. `link` is a path in the dashboard, and
    `since` is when it began, if that is known.
    """

    code: str
    severity: Severity
    message: str
    evidence: dict[str, object]
    advice: str
    link: str = ""
    since: datetime | None = None

    def __str__(self) -> str:
        return self.message
