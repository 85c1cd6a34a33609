"""Who asks, and what they may do."""

from typing import Literal

from rowcall.domain.value import Value


class Access(Value, frozen=True):
    """What an `authorize` callback returns: who asks, and whether they may read or also change jobs.

    >>> Access("ann@example.com", "operate").may_operate
    True
    """

    actor: str
    role: Literal["read", "operate"] = "read"

    @property
    def may_operate(self) -> bool:
        return self.role == "operate"
