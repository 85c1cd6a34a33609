"""How a queue records failures: the app's error codes, its scrubber and the length of tracebacks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from rowcall.base.text import DETAIL_LENGTH, code_problem, storable
from rowcall.context import logger
from rowcall.domain.error_codes import code_of
from rowcall.domain.errors import Control, InvalidOption
from rowcall.domain.failure import DEFAULT_TRACEBACK_LIMIT, Scrub, detail_of, raised, scrubbed, traceback_of, unchanged
from rowcall.domain.outcome import Raised, Unfit

SCRUBBING_FAILED = "<scrubbing failed>"

CodeFunction = Callable[[BaseException], str]


class Failures:
    """Calls the user's functions so that a failure in them does not stop a worker."""

    def __init__(self, scrub: Scrub | None = None, traceback_limit: int = DEFAULT_TRACEBACK_LIMIT) -> None:
        self._codes: dict[type[BaseException], str | CodeFunction] = {}
        self._logged: set[object] = set()
        self.configure(scrub, traceback_limit)

    def configure(self, scrub: Scrub | None, traceback_limit: int) -> None:
        """Set what may be known only after tasks and codes were declared."""
        self._scrub = scrub
        self._traceback_limit = traceback_limit
        self.scrub: Scrub = unchanged if scrub is None else self._scrubbed

    @property
    def scrubs(self) -> bool:
        return self._scrub is not None

    @property
    def keeps_tracebacks(self) -> bool:
        return self._traceback_limit > 0

    def declare(self, kind: type[BaseException], code: str | CodeFunction) -> str | CodeFunction:
        """Set the code of a class of errors and its subclasses, and return it, or raise `InvalidOption`."""
        self.check(kind)
        if inspect.iscoroutinefunction(code):
            raise InvalidOption("error_code", "must be a function that is not async")
        if not callable(code) and (problem := code_problem(code)):
            raise InvalidOption("error_code", problem)
        self._codes[kind] = code
        return code

    def check(self, kind: type[BaseException]) -> None:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidOption("error_code", f"must be given for an exception class, got {kind!r}")
        if issubclass(kind, Control):
            raise InvalidOption(
                "error_code", f"{kind.__name__} cannot have a code: it already chooses how an attempt ends"
            )
        if kind in self._codes:
            raise InvalidOption("error_code", f"{kind.__name__} already has a code")

    def code_of(self, error: BaseException) -> str:
        return code_of(error, self.own_code)

    def raised(self, error: BaseException) -> Raised:
        return raised(error, self.code_of(error), scrub=self.scrub, traceback_limit=self._traceback_limit)

    def raised_in_child(self, error: BaseException, code: str, detail: str, traceback: str) -> Raised:
        """Return the outcome for an exception in a child process, which `error` resembles."""
        limit = self._traceback_limit
        text = storable(self.scrub(traceback), limit) if limit else None
        return Raised(scrubbed(error, self.scrub), code, self.detail(detail), text)

    def unfit(self, error: BaseException, code: str | None = None) -> Unfit:
        return Unfit(code or self.code_of(error), detail_of(error, self.scrub), self.traceback_of(error))

    def shown_choices(self, choices: Sequence[str]) -> list[str]:
        """Return choices as they may be shown: scrubbed, and each different from the others."""
        shown: list[str] = []
        for number, choice in enumerate(choices, 1):
            text = self.scrub(choice)
            shown.append(f"{text} ({number})" if text != choice and text in (*choices, *shown) else text)
        return shown

    def detail(self, text: str) -> str:
        return storable(self.scrub(text), DETAIL_LENGTH)

    def traceback_of(self, error: BaseException) -> str | None:
        return traceback_of(error, self.scrub, self._traceback_limit)

    def described(self, error: BaseException) -> str:
        """Return a text for the log: the traceback if tracebacks are kept, else the message."""
        return self.traceback_of(error) or f"{type(error).__name__}: {detail_of(error, self.scrub)}"

    def own_code(self, error: BaseException) -> str | None:
        """Return the app's code for it, or None."""
        if not self._codes:
            return None
        for kind in type(error).__mro__:
            if (code := self._codes.get(kind)) is not None:
                return code if isinstance(code, str) else self._code_from(kind, code, error)
        return None

    def _code_from(self, kind: type[BaseException], function: CodeFunction, error: BaseException) -> str | None:
        try:
            code: object = function(error)
            problem = code_problem(code)
        except BaseException as broken:
            code, problem = None, f"raised {type(broken).__name__}"
        if problem is None:
            return str(code)
        if kind not in self._logged:
            self._logged.add(kind)
            said = self.scrub(problem)
            logger.error("ignored the error code of %s, used the default: %s", kind.__name__, said)
        return None

    def _scrubbed(self, text: str) -> str:
        assert self._scrub is not None
        try:
            scrubbed: object = self._scrub(text)
            if isinstance(scrubbed, str):
                return scrubbed
            problem = f"it returned {type(scrubbed).__name__}, not str"
        except BaseException as broken:  # its message may contain the secret
            problem = f"it raised {type(broken).__name__}"
        if SCRUBBING_FAILED not in self._logged:
            self._logged.add(SCRUBBING_FAILED)
            logger.error("scrub failed, texts are replaced by %s: %s", SCRUBBING_FAILED, problem)
        return SCRUBBING_FAILED
