"""Every value of a request has bounds in the OpenAPI document, and each bound is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from rowcall import Rowcall
from rowcall.http.api.openapi import document
from rowcall.http.api.table import ENDPOINTS
from tests.http.client import Client

DOCUMENT = document(ENDPOINTS, "")
BODIES = {kind.__name__ for one in ENDPOINTS if (kind := one.body) is not None} | {"BodyFilter", "EnqueueItem"}


def bounded(schema: dict[str, Any]) -> bool:
    """Return whether a value of the schema cannot be endless."""
    if "anyOf" in schema:
        return all(bounded(one) for one in schema["anyOf"])
    match schema.get("type"):
        case "integer" | "number":
            return "minimum" in schema and ("maximum" in schema or "exclusiveMaximum" in schema)
        case "string":
            return "maxLength" in schema or "enum" in schema or "format" in schema
        case "array":
            return "maxItems" in schema and bounded(schema["items"])
    return True


def violations(schema: dict[str, Any]) -> Iterator[object]:
    """Yield values that are just outside the bounds of a schema."""
    for one in schema.get("anyOf", []):
        yield from violations(one)
    if "minimum" in schema:
        yield schema["minimum"] - (1 if schema["type"] == "integer" else max(abs(schema["minimum"]) / 10, 0.0001))
    if "maximum" in schema:
        yield schema["maximum"] + 1
    if "exclusiveMaximum" in schema:
        yield schema["exclusiveMaximum"]
    if schema.get("minLength"):
        yield ""
    if "maxLength" in schema:
        yield "x" * (schema["maxLength"] + 1)
    if "items" in schema:
        yield from ([value] for value in violations(schema["items"]))
        if schema["maxItems"] <= 1000 and "type" in schema["items"]:
            yield [1 if schema["items"]["type"] == "integer" else "x"] * (schema["maxItems"] + 1)
        if schema["minItems"]:
            yield []


def test_every_value_of_a_request_is_bounded() -> None:
    unbounded = [
        (path, parameter["name"])
        for path, methods in DOCUMENT["paths"].items()
        for operation in methods.values()
        for parameter in operation.get("parameters", [])
        if not bounded(parameter["schema"])
    ]
    for kind in BODIES:
        fields = DOCUMENT["components"]["schemas"][kind]["properties"]
        unbounded += [(kind, name) for name, schema in fields.items() if not bounded(schema)]
    assert unbounded == []


REQUIRED: dict[str, dict[str, object]] = {
    "Prioritizing": {"priority": 1},
    "BulkPriority": {"priority": 1},
    "EnqueueItem": {"task": "greet"},
}


def test_every_bound_is_kept(client: Client, filled: Rowcall) -> None:
    """A value just outside is refused, wherever it is given."""
    asked = 0
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", []):
                for value in violations(parameter["schema"]):
                    asked += 1
                    where, name = parameter["in"], parameter["name"]
                    if where == "path":
                        sent = client.send(method.upper(), path.replace(f"{{{name}}}", quote(str(value))), b"")
                    elif where == "query" and value not in ("", [""]):  # an empty parameter is left out
                        sent = client.get(f"{path}?{urlencode({name: value}, doseq=True)}")
                    elif where == "header":
                        sent = client.post(path, {"task": "greet"}, **{name: str(value)})
                    else:
                        continue
                    assert 400 <= sent.status_code < 500, (method, path, name, str(value)[:50])
            for field, value in wrong_fields(operation):
                asked += 1
                body = {**REQUIRED.get(body_of(operation), {}), field: value}
                sent = client.post(path.format(id=3, name="x"), body, method=method.upper())
                is_refused = 400 <= sent.status_code < 500 or (field == "ids" and sent.json()["refused"])
                assert is_refused, (method, path, field, str(value)[:50])
    assert asked > 150
    assert filled.stats().total == 3


def body_of(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]


def wrong_fields(operation: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield fields of a body with values that are just outside their bounds, those of inner objects too."""
    schemas = DOCUMENT["components"]["schemas"]
    fields = schemas[body_of(operation)]["properties"] if body_of(operation) else {}
    for name, schema in fields.items():
        yield from ((name, value) for value in violations(schema))
        if name == "filter":
            for inner, one in schemas["BodyFilter"]["properties"].items():
                yield from ((name, {inner: value}) for value in violations(one))
        if name == "jobs":
            for inner, one in schemas["EnqueueItem"]["properties"].items():
                yield from ((name, [{"task": "greet", inner: value}]) for value in violations(one))
