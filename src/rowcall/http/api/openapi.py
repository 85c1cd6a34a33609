"""The OpenAPI 3.1 document, made from the table of endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from rowcall.domain.config import VERSION
from rowcall.domain.value import Value
from rowcall.http.api.bounds import Json, bound
from rowcall.http.api.jobs import LONGEST_IDEMPOTENCY_KEY
from rowcall.http.endpoint import Endpoint, EndpointInput
from rowcall.http.live import EventsQuery, ValuesQuery
from rowcall.http.problems import MEDIA_TYPE

K = TypeVar("K")
_IDEMPOTENCY_KEY: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_IDEMPOTENCY_KEY}
_REFERENCE = "#/components/schemas/{name}"
_PROBLEM: Json = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status"],
}


def _response(description: str, media_type: str, schema: Json) -> Json:
    return {"description": description, "content": {media_type: {"schema": schema}}}


_PROBLEM_RESPONSE = _response("A problem", MEDIA_TYPE, {"$ref": _REFERENCE.format(name="Problem")})


def document(endpoints: Iterable[Endpoint], base: str) -> Json:
    """Return the document. `base` is the prefix that the app is mounted at."""
    listed = list(endpoints)
    kinds = [kind for one in listed for kind in (one.answer, one.body) if kind is not None]
    _, components = msgspec.json.schema_components(
        list(dict.fromkeys(kinds)), schema_hook=_any, ref_template=_REFERENCE
    )
    _drop_hidden(components)
    _bound_requests(components)
    paths: Json = {}
    for one in listed:
        paths.setdefault(f"/api{one.template}", {})[one.method.lower()] = _operation(one)
    paths |= {path: {"get": operation} for path, operation in _OTHERS.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rowcall", "version": VERSION, "description": "Background jobs, as an HTTP API."},
        "servers": [{"url": base or "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _any(kind: type) -> Json:
    """Return the schema of `object`, which is any value."""
    return {"description": "Any value"}


def _operation(endpoint: Endpoint) -> Json:
    parameters = _path_parameters(endpoint.parameters)
    if endpoint.query is not None:
        parameters += _query_parameters(endpoint.query)
    summary, _, more = endpoint.summary.partition("\n")
    operation: Json = {
        "operationId": endpoint.name,
        "summary": summary,
        "tags": [endpoint.path.split("/")[1]],
        "parameters": parameters,
        "responses": {
            str(endpoint.status): _response("Done", "application/json", _schema(endpoint.answer)),
            "default": _PROBLEM_RESPONSE,
        },
    }
    if more.strip():
        operation["description"] = " ".join(more.split())
    if endpoint.body is not None:
        required = any(field.required for field in msgspec.structs.fields(endpoint.body))
        operation["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": _schema(endpoint.body)}},
        }
    if endpoint.name == "enqueue_jobs":
        operation["parameters"].append(
            {"name": "Idempotency-Key", "in": "header", "required": False, "schema": _IDEMPOTENCY_KEY}
        )
    return operation


def _path_parameters(kinds: Mapping[str, type]) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": bound("", name, _schema(kind))}
        for name, kind in kinds.items()
    ]


def _query_parameters(kind: type[EndpointInput]) -> list[Json]:
    fields = msgspec.json.schema(kind, schema_hook=_any, ref_template=_REFERENCE)["$defs"][kind.__name__]["properties"]
    bounded = {name: bound(kind.__name__, name, schema) for name, schema in fields.items()}
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in bounded.items()]


def _schema(kind: type) -> Json:
    (schema,), _ = msgspec.json.schema_components([kind], schema_hook=_any, ref_template=_REFERENCE)
    return schema


def _bound_requests(components: Json) -> None:
    for kind in _kinds_below(EndpointInput):
        fields = components.get(kind.__name__, {}).get("properties", {})
        fields.update({name: bound(kind.__name__, name, schema) for name, schema in fields.items()})


def _drop_hidden(components: Json) -> None:
    """Remove the fields that answers never have."""
    for kind in _kinds_below(Value):
        for name in kind._hidden:
            if kind.__name__ in components:
                components[kind.__name__]["properties"].pop(name, None)


def _kinds_below(kind: type[K]) -> list[type[K]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _kinds_below(child))]


def _text(name: str, summary: str, media_type: str = "text/plain", **more: object) -> Json:
    """Return an operation whose answer is a text."""
    done = _response("Done", media_type, {"type": "string"})
    return {"operationId": name, "summary": summary, "responses": {"200": done, "default": _PROBLEM_RESPONSE}, **more}


_OTHERS = {
    "/api/events": _text(
        "get_events",
        "Stream what happens to jobs as server-sent events.",
        "text/event-stream",
        parameters=_query_parameters(EventsQuery),
    ),
    "/api/jobs/{id}/streams/{name}": _text(
        "get_stream",
        "Stream the values that the handler of a job appends as server-sent events, until the job has ended.",
        "text/event-stream",
        parameters=[
            *_path_parameters({"id": int, "name": str}),
            *_query_parameters(ValuesQuery),
        ],
    ),
    "/healthz": _text("get_health", "Answer while the server runs.", security=[]),
    "/readyz": _text(
        "get_readiness",
        "Answer while the database answers.",
        security=[],
        responses={status: _response("The answer", "text/plain", {"type": "string"}) for status in ("200", "503")},
    ),
    "/metrics": _text("get_metrics", "Return the state of the queues for Prometheus."),
}
"""What is not in the table: answers that are not JSON."""
