"""How failures are recorded in one queue: codes of its own, its scrubber, how much of a traceback is kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from rowcall.base.text import DETAIL_LENGTH, code_complaint, storable
from rowcall.context import logger
from rowcall.domain.error_codes import code_of
from rowcall.domain.errors import Control, InvalidOption
from rowcall.domain.failure import DEFAULT_TRACEBACK_LIMIT, Scrub, detail_of, raised, scrubbed, traceback_of, unchanged
from rowcall.domain.lifecycle import Raised, Unfit

SCRUBBING_FAILED = "<scrubbing failed>"

CodeFunction = Callable[[BaseException], str]


class Failures:
    """Nothing of the user's that is called here can take a worker down."""

    def __init__(self, scrub: Scrub | None = None, traceback_limit: int = DEFAULT_TRACEBACK_LIMIT) -> None:
        self._codes: dict[type[BaseException], str | CodeFunction] = {}
        self._scrub = scrub
        self._traceback_limit = traceback_limit
        self._told: set[object] = set()
        self.scrub: Scrub = unchanged if scrub is None else self._scrubbed

    @property
    def scrubs(self) -> bool:
        return self._scrub is not None

    def declare(self, kind: type[BaseException], code: str | CodeFunction) -> None:
        """The code of a class of errors and of those below it; refused ones say why."""
        self.check(kind)
        if inspect.iscoroutinefunction(code):
            raise InvalidOption("error_code", "wants a function that is not async")
        if not callable(code) and (complaint := code_complaint(code)):
            raise InvalidOption("error_code", complaint)
        self._codes[kind] = code

    def check(self, kind: type[BaseException]) -> None:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidOption("error_code", f"wants a class of exceptions, not {kind!r}")
        if issubclass(kind, Control):
            raise InvalidOption("error_code", f"{kind.__name__} says by itself how an attempt ends")
        if kind in self._codes:
            raise InvalidOption("error_code", f"{kind.__name__} has one already")

    def code_of(self, error: BaseException) -> str:
        return code_of(error, self._own_code)

    def raised(self, error: BaseException) -> Raised:
        return raised(error, self.code_of(error), scrub=self.scrub, traceback_limit=self._traceback_limit)

    def told(self, error: BaseException, code: str, detail: str, traceback: str) -> Raised:
        """The same of an exception in another process, to which `error` is as like as can be."""
        limit = self._traceback_limit
        text = storable(self.scrub(traceback), limit) if limit else None
        return Raised(scrubbed(error, self.scrub), code, self.detail(detail), text)

    def own_code(self, error: BaseException) -> str | None:
        """The code that the app itself gives to it, if any."""
        return self._own_code(error)

    def unfit(self, error: BaseException, code: str | None = None) -> Unfit:
        return Unfit(code or self.code_of(error), detail_of(error, self.scrub), self.traceback_of(error))

    def detail(self, text: str) -> str:
        return storable(self.scrub(text), DETAIL_LENGTH)

    def traceback_of(self, error: BaseException) -> str | None:
        return traceback_of(error, self.scrub, self._traceback_limit)

    def described(self, error: BaseException) -> str:
        """For the log: the traceback where one is wanted, else what the error says."""
        return self.traceback_of(error) or f"{type(error).__name__}: {detail_of(error, self.scrub)}"

    def _own_code(self, error: BaseException) -> str | None:
        if not self._codes:
            return None
        for kind in type(error).__mro__:
            if (code := self._codes.get(kind)) is not None:
                return code if isinstance(code, str) else self._asked(kind, code, error)
        return None

    def _asked(self, kind: type[BaseException], function: CodeFunction, error: BaseException) -> str | None:
        try:
            code: object = function(error)
            problem = code_complaint(code)
        except BaseException as broken:
            code, problem = None, f"raised {type(broken).__name__}"
        if problem is None:
            return str(code)
        if kind not in self._told:
            self._told.add(kind)
            said = self.scrub(problem)
            logger.error("the error code of %s is passed over, the default one is taken: %s", kind.__name__, said)
        return None

    def _scrubbed(self, text: str) -> str:
        assert self._scrub is not None
        try:
            scrubbed: object = self._scrub(text)
            if isinstance(scrubbed, str):
                return scrubbed
            problem = f"it gave {type(scrubbed).__name__}, not a text"
        except BaseException as broken:  # what it says may hold what it was to hide
            problem = f"it raised {type(broken).__name__}"
        if SCRUBBING_FAILED not in self._told:
            self._told.add(SCRUBBING_FAILED)
            logger.error("the scrubber failed, so texts are replaced by %s: %s", SCRUBBING_FAILED, problem)
        return SCRUBBING_FAILED
