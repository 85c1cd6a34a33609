from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.cli.mcp.confirmed_changes import MOST_OPEN, TOKEN_SECONDS, ConfirmedChanges, ShownChange
from rowcall.testing import FakeClock


def test_a_token_expires_is_single_and_is_for_what_was_shown() -> None:
    clock, made, state = FakeClock(), list[str](), ["before"]
    changes = ConfirmedChanges(clock)

    def show(name: str, count: int = 1) -> str:
        def make() -> dict[str, object]:
            made.append(name)
            return {"made": name}

        return str(changes.show(ShownChange(name, count, {}, lambda: list(state), make))["token"])

    token = show("a")
    assert changes.make(token) == {"made": "a"}
    late, spoilt = show("late"), show("spoilt")
    for used in (token, "guess", ""):
        with pytest.raises(InvalidOption, match="token is unknown, used or expired"):
            changes.make(used)
    state.append("after")
    with pytest.raises(InvalidOption, match="has changed; nothing was done: spoilt"):
        changes.make(spoilt)
    clock.advance(TOKEN_SECONDS)
    with pytest.raises(InvalidOption, match="expired"):
        changes.make(late)
    assert show("nothing", count=0) == "None"
    tokens = [show(str(number)) for number in range(MOST_OPEN + 1)]
    with pytest.raises(InvalidOption, match="unknown"):
        changes.make(tokens[0])  # the oldest is forgotten
    changes.make(tokens[-1])
    assert made == ["a", str(MOST_OPEN)]
