"""The same settings of hypothesis as in tests/domain."""

import tests.domain.conftest  # noqa: F401
