"""schemathesis makes requests from the OpenAPI document, right and wrong ones: all are answered as it says."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rowcall import Rowcall
from rowcall.http.api.table import ENDPOINTS

EXAMPLES = int(os.environ.get("ROWCALL_TEST_REQUESTS", "3"))
AUTHORIZED = {"Authorization": f"Bearer {'t' * 20}"}
STREAMS = {"/api/events", "/api/jobs/{id}/streams/{name}"}  # they may not end
CHECKS = [
    *(not_a_server_error, response_schema_conformance, content_type_conformance, status_code_conformance),
    allow_header_conformance,
]
UNHURRIED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_request_is_answered_as_described(filled: Rowcall, mode: GenerationMode) -> None:
    app = filled.asgi(token="t" * 20)
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=AUTHORIZED)
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    answered, ids = Counter[int](), itertools.cycle([1, 2, 3, 2**40])

    def answer(case: Case[Any]) -> None:
        if mode is GenerationMode.POSITIVE and "id" in case.path_parameters:
            case.path_parameters["id"] = next(ids)  # a job that there is, more often than by chance
        response = case.call(headers=AUTHORIZED)
        answered[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    for operation in operations:
        if operation.path not in STREAMS:
            with suppress(Unsatisfiable):  # a request without parameters cannot be wrong
                seed(1)(UNHURRIED(given(operation.as_strategy(generation_mode=mode))(answer)))()
    assert len(operations) == len(ENDPOINTS) + 5
    expected = {200, 404, 422} if mode is GenerationMode.POSITIVE else {401, 422}
    assert answered.keys() >= expected
